"""TPC-H: the 22 queries with the specification's validation parameters, and its data, generated exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
QUERIES = range(1, 23)


def query(number: int, scale: float) -> str:
    """The text of query 1 to 22. Query 11 has a fraction that depends on the scale factor (clause 2.4.11.3)."""
    text = (Path(__file__).parent / "queries" / f"q{number:02d}.sql").read_text()
    return text.replace("{fraction}", f"{0.0001 / scale:.10f}") if number == 11 else text


def folder(scale: float) -> Path:
    """Where the data of a scale factor lies as Parquet; generated when it is not there."""
    cache = Path(os.environ.get("FIRNDB_CACHE", Path.home() / ".cache" / "firndb"))
    target = cache / "data" / f"tpch-{scale:g}"
    if not all((target / f"{table}.parquet").exists() for table in TABLES):
        target.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run(
            [generator, "parquet", "-s", f"{scale:g}", "--output-dir", target, "--overwrite"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return target


def table(name: str, scale: float) -> pa.Table:
    """A table as pyarrow makes it by default: strings with offsets, decimal128(15, 2), contiguous columns."""
    data = pq.read_table(folder(scale) / f"{name}.parquet")
    fields = [field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in data.schema]
    return data.cast(pa.schema(fields))
