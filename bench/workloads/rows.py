"""Single rows from Python, beside SQLite and DuckDB."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import firndb

from bench.harness import Measurement, best_of, rate

ROWS = 100_000
SECONDS = 1.0


def connections() -> dict[str, Any]:
    """Each engine in memory, in autocommit, with the same table of accounts."""
    engines: dict[str, Any] = {
        "FirnDB": firndb.connect(),
        "SQLite": sqlite3.connect(":memory:", isolation_level=None),
        "DuckDB": duckdb.connect(),
    }
    for connection in engines.values():
        connection.execute("CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT, owner VARCHAR)")
        connection.execute("BEGIN")
        if isinstance(connection, duckdb.DuckDBPyConnection):
            connection.execute(f"INSERT INTO account SELECT i, 100, 'owner ' || i FROM range({ROWS}) AS r(i)")
        else:
            connection.executemany("INSERT INTO account VALUES (?, ?, ?)", [(i, 100, f"owner {i}") for i in range(ROWS)])
        connection.execute("COMMIT")
    return engines


def deletes(connection: Any) -> float:
    """Rows a second that are deleted one by one."""
    count = 500 if isinstance(connection, duckdb.DuckDBPyConnection) else 50_000
    connection.execute("CREATE TABLE doomed (id BIGINT PRIMARY KEY, balance BIGINT, owner VARCHAR)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO doomed VALUES (?, ?, ?)", [(i, 100, f"owner {i}") for i in range(count)])
    connection.execute("COMMIT")
    execute, start = connection.execute, time.perf_counter()
    for i in range(count):
        execute("DELETE FROM doomed WHERE id = ?", [i])
    elapsed = time.perf_counter() - start
    connection.execute("DROP TABLE doomed")
    return count / elapsed


def workload() -> Iterator[Measurement]:
    """Single rows from Python, in memory, one thread."""
    keys = [random.Random(1).randrange(ROWS) for _ in range(1 << 16)]
    for engine, connection in connections().items():
        execute = connection.execute

        def select(i: int, execute: Any = execute) -> None:
            execute("SELECT balance, owner FROM account WHERE id = ?", [keys[i & 0xFFFF]]).fetchone()

        def update(i: int, execute: Any = execute) -> None:
            execute("UPDATE account SET balance = balance + 1 WHERE id = ?", [keys[i & 0xFFFF]])

        def insert(i: int, execute: Any = execute) -> None:
            execute("INSERT INTO account VALUES (?, ?, ?)", [ROWS + i, 100, "new"])

        yield Measurement("point select by key", engine, rate(SECONDS, select), "1/s")
        yield Measurement("single-row update, autocommit", engine, rate(SECONDS, update), "1/s")
        yield Measurement("single-row insert, autocommit", engine, rate(SECONDS, insert), "1/s")

        yield Measurement("single-row delete, autocommit", engine, deletes(connection), "1/s")

        count = 2_000 if engine == "DuckDB" else 100_000
        rows = [(i, 100, f"owner {i}") for i in range(count)]

        def many(connection: Any = connection, rows: list[Any] = rows) -> None:
            connection.execute("CREATE TABLE bulk (id BIGINT PRIMARY KEY, balance BIGINT, owner VARCHAR)")
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO bulk VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
            connection.execute("DROP TABLE bulk")

        yield Measurement("inserts by executemany", engine, count / best_of(2, many), "1/s")
