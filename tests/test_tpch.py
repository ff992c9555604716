"""TPC-H at scale factor 0.1: each of the 22 answers equals DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import firndb
import pytest

from bench import compare, tpch

SCALE = 0.1


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[firndb.Connection, Any]]:
    """FirnDB and DuckDB over the same tables."""
    ours, theirs = firndb.connect(), duckdb.connect()
    for name in tpch.TABLES:
        data = tpch.table(name, SCALE)
        ours.append(name, data, create=True)
        theirs.register("incoming", data)
        theirs.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        theirs.unregister("incoming")
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_tpch_query_answers_as_duckdb_does(engines: tuple[firndb.Connection, Any], number: int) -> None:
    ours, theirs = engines
    text = tpch.query(number, SCALE)
    compare.assert_same(ours.execute(text).fetchall(), theirs.execute(text).fetchall(), f"query {number}")
