"""Tables in and out: Arrow, pandas, NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap

import firndb
import numpy as np
import pyarrow as pa

from bench import tpch
from bench.harness import Measurement, alternate, best_of
from bench.workloads import peers

INTEGERS = "l_orderkey, l_partkey, l_suppkey, l_linenumber"


def memcpy(source: list[np.ndarray]) -> list[np.ndarray]:
    """Copies columns into newly mapped anonymous memory (ordinary pages) with as many threads as a load uses."""

    def halves(column: np.ndarray, target: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        middle = len(column) // 2
        return [(target[:middle], column[:middle]), (target[middle:], column[middle:])]

    targets = [np.frombuffer(mmap(-1, column.nbytes), dtype=column.dtype) for column in source]
    work = [half for column, target in zip(source, targets, strict=True) for half in halves(column, target)]
    with ThreadPoolExecutor(peers.THREADS) as pool:
        list(pool.map(lambda pair: np.copyto(*pair), work))
    return targets


def sums(columns: dict[str, np.ndarray]) -> list[int]:
    """Reads every value once."""
    return [int(np.sum(column)) for column in columns.values()]


def workload() -> Iterator[Measurement]:
    """lineitem SF1 (6,001,215 rows, 16 columns) in and out, in memory."""
    table = tpch.table("lineitem", 1)
    firn, duck = peers.firn({"lineitem": table}), peers.duck({"lineitem": table})
    cases = {
        "to Arrow, default types": {
            "FirnDB": lambda: firn.table("lineitem").arrow(),
            "DuckDB": lambda: duck.table("lineitem").to_arrow_table(),
        },
        "to Arrow, native types": {
            "FirnDB": lambda: firn.table("lineitem").arrow(native=True),
            "DuckDB": lambda: duck.table("lineitem").to_arrow_table(),
        },
        "to pandas": {
            "FirnDB": lambda: firn.table("lineitem").df(),
            "DuckDB": lambda: duck.table("lineitem").df(),
        },
        "4 integer columns to NumPy": {
            "FirnDB": lambda: firn.sql(f"SELECT {INTEGERS} FROM lineitem").fetchnumpy(),
            "DuckDB": lambda: duck.sql(f"SELECT {INTEGERS} FROM lineitem").fetchnumpy(),
        },
        "4 integer columns to NumPy, each summed": {
            "FirnDB": lambda: sums(firn.sql(f"SELECT {INTEGERS} FROM lineitem").fetchnumpy()),
            "DuckDB": lambda: sums(duck.sql(f"SELECT {INTEGERS} FROM lineitem").fetchnumpy()),
        },
        "a BIGINT column to NumPy": {
            "FirnDB": lambda: firn.sql("SELECT l_orderkey FROM lineitem").fetchnumpy(),
            "DuckDB": lambda: duck.sql("SELECT l_orderkey FROM lineitem").fetchnumpy(),
        },
        "a DECIMAL column to NumPy": {
            "FirnDB": lambda: firn.sql("SELECT l_extendedprice FROM lineitem").fetchnumpy(),
            "DuckDB": lambda: duck.sql("SELECT l_extendedprice FROM lineitem").fetchnumpy(),
        },
        "a DATE column to NumPy": {
            "FirnDB": lambda: firn.sql("SELECT l_shipdate FROM lineitem").fetchnumpy(),
            "DuckDB": lambda: duck.sql("SELECT l_shipdate FROM lineitem").fetchnumpy(),
        },
    }
    for case, engines in cases.items():
        for engine, seconds in alternate(2 if case == "to pandas" else 5, engines).items():
            yield Measurement(case, engine, seconds, "s")
    firn.close()
    duck.close()

    loads = {"FirnDB": lambda: peers.firn({"t": table}), "DuckDB": lambda: peers.duck({"t": table})}
    for engine, seconds in alternate(3, loads).items():
        yield Measurement("append of lineitem from Arrow", engine, seconds, "s")

    columns = [np.arange(i, i + 15_625_000, dtype=np.int64) for i in range(8)]
    fixed = pa.table({f"c{i}": column for i, column in enumerate(columns)})

    def append() -> firndb.Connection:
        return peers.firn({"t": fixed})

    yield Measurement("append of 1 GB of int64 columns", "FirnDB", best_of(3, append), "s")
    yield Measurement("append of 1 GB of int64 columns", "memcpy", best_of(3, lambda: memcpy(columns)), "s")
    yield Measurement("append of 1 GB of int64 columns", "DuckDB", best_of(1, lambda: peers.duck({"t": fixed})), "s")
