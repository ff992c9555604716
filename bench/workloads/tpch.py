"""TPC-H at scale factor 1."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import compare, tpch
from bench.harness import Measurement, alternate
from bench.workloads import peers


def workload() -> Iterator[Measurement]:
    """TPC-H SF1, 22 queries, best of 3, the answers compared with DuckDB's."""
    scale = float(os.environ.get("BENCH_TPCH_SCALE", "1"))
    tables = {name: tpch.table(name, scale) for name in tpch.TABLES}
    firn, duck, fusion = peers.firn(tables), peers.duck(tables), peers.data_fusion(tables)
    del tables
    totals: dict[str, float] = {}
    for number in tpch.QUERIES:
        text = tpch.query(number, scale)
        compare.assert_same(firn.execute(text).fetchall(), duck.execute(text).fetchall(), f"query {number}")
        times = alternate(
            3,
            {
                "FirnDB": lambda text=text: firn.execute(text).fetchall(),
                "DuckDB": lambda text=text: duck.execute(text).fetchall(),
                "DataFusion": lambda text=text: fusion.sql(text).collect(),
            },
        )
        for engine, seconds in times.items():
            totals[engine] = totals.get(engine, 0.0) + seconds
            yield Measurement(f"query {number}", engine, seconds, "s")
    for engine, seconds in totals.items():
        yield Measurement("all 22 queries", engine, seconds, "s")
