"""FirnDB answers random statements as DuckDB and SQLite do. More seeds: ``FIRNDB_SEEDS=1000 pytest tests/differential``."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import firndb
import pytest

from bench.compare import same

from .generate import Generator, multiset

SEEDS = int(os.environ.get("FIRNDB_SEEDS", "25"))
STATEMENTS = 40

Rows = list[tuple[Any, ...]]


def plain(value: Any) -> Any:
    """Whole decimals as integers and decimals without their type's zeros: engines differ in a sum's type."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


def run(execute: Callable[[str], Any], sql: str) -> Rows | None:
    """The rows as a multiset, or None for an error of the statement (overflow)."""
    try:
        rows = execute(sql).fetchall()
    except (firndb.DataError, duckdb.OutOfRangeException, duckdb.ConversionException):
        return None
    except sqlite3.OperationalError as error:
        if "overflow" in str(error):
            return None
        raise
    return multiset([tuple(plain(value) for value in row) for row in rows])


def assert_agree(ours: Rows | None, theirs: Rows | None, sql: str) -> None:
    """Both failed, or both have the same multiset of rows.

    An overflow may go unnoticed where the answer is empty: `a INTERSECT b` need not compute `b` when `a` has no rows.
    """
    if ours == [] and theirs is None:
        return
    assert (ours is None) == (theirs is None), f"{sql}\n  ours: {ours}\n  theirs: {theirs}"
    if ours is None or theirs is None:
        return
    agree = len(ours) == len(theirs) and all(
        len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
        for left, right in zip(ours, theirs, strict=True)
    )
    assert agree, f"{sql}\n  ours: {ours}\n  theirs: {theirs}"


def play(seed: int, peer: Any, portable: bool, strings: str | None = None) -> None:
    """Sets up both engines, then alternates queries and writes, comparing after each.

    With `strings`, our tables store them in that format, and are frozen before each query.
    """
    generator = Generator(seed, portable)
    ours = firndb.connect()
    for sql in generator.setup():
        ours.execute(sql)
        peer.execute(sql)
    tables = [table.name for table in generator.tables]
    if strings is not None:
        for table in tables:
            ours.execute(f"ALTER TABLE {table} SET (strings = '{strings}')")
    for number in range(STATEMENTS):
        if number % 4 == 3:
            sql, table = generator.write()
            outcomes = []
            for execute in (ours.execute, peer.execute):
                try:
                    execute(sql)
                    outcomes.append(True)
                except (firndb.DataError, duckdb.OutOfRangeException, duckdb.ConversionException):
                    outcomes.append(False)
            assert outcomes[0] == outcomes[1], f"{sql}\n  ours succeeded: {outcomes[0]}, theirs: {outcomes[1]}"
            sql = f"{sql}; then the table"
            assert_agree(run(ours.execute, f"SELECT * FROM {table}"), run(peer.execute, f"SELECT * FROM {table}"), sql)
        else:
            if strings is not None:
                for table in tables:
                    ours.execute(f"PRAGMA freeze('{table}')")
            sql = generator.query()
            assert_agree(run(ours.execute, sql), run(peer.execute, sql), sql)
    ours.close()
    peer.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_statements_agree_with_duckdb(seed: int) -> None:
    play(seed, duckdb.connect(), portable=False)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_statements_agree_whatever_the_format_of_strings(seed: int) -> None:
    formats = ("dictionary", "view", "dictionary", "offset")
    play(20_000 + seed, duckdb.connect(), portable=False, strings=formats[seed % len(formats)])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_statements_agree_with_sqlite(seed: int) -> None:
    play(10_000 + seed, sqlite3.connect(":memory:", isolation_level=None), portable=True)
