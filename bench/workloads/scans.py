"""Scans of one column."""

from __future__ import annotations

from collections.abc import Iterator

from bench import tpch
from bench.harness import Measurement, alternate
from bench.workloads import peers


def workload() -> Iterator[Measurement]:
    """One column of lineitem SF1, scanned and aggregated, best of 7."""
    tables = {"lineitem": tpch.table("lineitem", 1)}
    firn, duck, fusion = peers.firn(tables), peers.duck(tables), peers.data_fusion(tables)
    del tables
    cases = {
        "sum of an int64 column": "select sum(l_partkey) from lineitem",
        "sum of a decimal column": "select sum(l_extendedprice) from lineitem",
        "count with a range of dates": "select count(*) from lineitem where l_shipdate < date '1993-01-01'",
        "group by two short strings": "select l_returnflag, l_linestatus, count(*) from lineitem group by 1, 2",
        "count of rows": "select count(*) from lineitem",
    }
    for case, text in cases.items():
        times = alternate(
            7,
            {
                "FirnDB": lambda text=text: firn.execute(text).fetchall(),
                "DuckDB": lambda text=text: duck.execute(text).fetchall(),
                "DataFusion": lambda text=text: fusion.sql(text).collect(),
            },
        )
        for engine, seconds in times.items():
            yield Measurement(case, engine, seconds, "s")
