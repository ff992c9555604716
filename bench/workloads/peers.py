"""The peers, set up alike: the same tables, two threads each, in memory."""

from __future__ import annotations

import datafusion
import duckdb
import firndb
import pyarrow as pa

THREADS = 2
BATCH_ROWS = 32_768


def firn(tables: dict[str, pa.Table]) -> firndb.Connection:
    """FirnDB with the tables loaded."""
    connection = firndb.connect(config={"threads": THREADS})
    for name, table in tables.items():
        connection.append(name, table, create=True)
    return connection


def duck(tables: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables copied into its own memory."""
    connection = duckdb.connect(config={"threads": THREADS})
    for name, table in tables.items():
        connection.register("incoming", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        connection.unregister("incoming")
    return connection


def data_fusion(tables: dict[str, pa.Table]) -> datafusion.SessionContext:
    """DataFusion over record batches: string views, decimal128, batches of 32,768 rows, as many partitions as threads."""
    config = (
        datafusion.SessionConfig({"datafusion.sql_parser.parse_float_as_decimal": "true"})
        .with_target_partitions(THREADS)
        .with_batch_size(BATCH_ROWS)
    )
    context = datafusion.SessionContext(config)
    for name, table in tables.items():
        fields = [field.with_type(pa.string_view()) if pa.types.is_string(field.type) else field for field in table.schema]
        batches = table.cast(pa.schema(fields)).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        share = -(-len(batches) // THREADS)
        parts = [batches[start : start + share] for start in range(0, len(batches), share)]
        context.register_record_batches(name, parts)
    return context
