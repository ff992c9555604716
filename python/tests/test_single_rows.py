"""Statements on single rows: compiled ones do what the general way does."""

from __future__ import annotations

import datetime as dt
import math
import random
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import firndb
import numpy as np
import pytest

COLUMNS = {
    "id": "BIGINT PRIMARY KEY",
    "small": "SMALLINT",
    "n": "INTEGER",
    "u": "UTINYINT",
    "big": "UBIGINT",
    "d": "DECIMAL(10, 2)",
    "w": "DECIMAL(30, 5)",
    "r": "REAL",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "s": "VARCHAR",
    "v": "VARCHAR(5)",
    "c": "CHAR(3)",
    "x": "BLOB",
    "day": "DATE",
    "tm": "TIME",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMPTZ",
    "k": "UUID UNIQUE",
    "j": "JSON",
    "m": "INTEGER NOT NULL DEFAULT 7",
    "l": "INTEGER[]",
}
UNIQUE = "UNIQUE (s, n), UNIQUE (day), UNIQUE (d), UNIQUE (f)"
TABLE = f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}, {UNIQUE})"
CHECKED = "CREATE TABLE checked (id INTEGER PRIMARY KEY, n INTEGER CHECK (n > 0), s VARCHAR DEFAULT 'none')"

UUIDS = [uuid.UUID(int=number) for number in range(4)]
FITTING: dict[str, list[Any]] = {
    "id": list(range(6)),
    "small": [0, 1, -1, 32767, -32768],
    "n": [0, 1, 2, -7, 2**31 - 1],
    "u": [0, 1, 255],
    "big": [0, 1, 2**63 - 1, 2**63],
    "d": [0, 1, Decimal("1.5"), Decimal("-2.25"), Decimal("99999999.99")],
    "w": [0, Decimal("0.00001"), Decimal("12345678901234567890.5"), -3],
    "r": [0.0, -0.0, 1.5, 3, math.nan],
    "f": [0.0, -0.0, 1.5, 1e300, 7, math.nan],
    "b": [True, False],
    "s": ["", "a", "b", "a longer text that does not lie in its view", "ä"],
    "v": ["", "abc", "äöüßé"],
    "c": ["abc", "a", "a  "],
    "x": [b"", b"ab", b"\x00\xff" * 10],
    "day": [dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(1, 1, 1)],
    "tm": [dt.time(0), dt.time(23, 59, 59, 999999)],
    "ts": [dt.datetime(2020, 2, 29, 12, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "tz": [
        dt.datetime(2020, 2, 29, 12, 30, tzinfo=dt.timezone.utc),
        dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),
    ],
    "k": list(UUIDS),
    "j": ['{"a": 1}', "1", "[]"],
    "m": [1, 2, 3],
    "l": [[1, 2], []],
}
ODD: list[Any] = [
    None, 128, 256, -129, 32768, 2**31, 2**63, -(2**63), 10**30, 10**39, 1.5, 2.5, -0.0, math.inf, 1e39, 1e-60, True,
    "7", " 7", "abc", "abcdef", "1.5", "", "2020-02-29", "2020-02-30", "true", str(UUIDS[1]), "not json",
    Decimal("1.555"), Decimal("1e30"), Decimal("-0.00"), b"ab", dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.time(1),
    UUIDS[0], np.int64(3), np.float64(2.0), dt.timedelta(days=1), [1],
]  # fmt: skip

KEYS = [
    "id = {}", "{} = id", "t.id = {}", "(id = {})", "k = {}", "s = {} AND n = {}", "n = {} AND s = {}", "day = {}", "d = {}",
    "f = {}", "id = {} AND n = {}",
]  # fmt: skip
KEY_COLUMNS = [*[["id"]] * 4, ["k"], ["s", "n"], ["n", "s"], ["day"], ["d"], ["f"], ["id", "n"]]


class Twin:
    """The same statements in two databases, of which one compiles nothing."""

    def __init__(self) -> None:
        self.connections = [firndb.connect(config={"progress_bar": False}) for _ in range(2)]
        self.others = [connection.cursor() for connection in self.connections]
        for connection in (self.connections[1], self.others[1]):
            connection.execute("SET compiled_statements = off")
        self.done = 0

    def run(self, sql: str, parameters: list[Any] | None = None, *, other: bool = False) -> Any:
        results = [outcome(connection, sql, parameters) for connection in (self.others if other else self.connections)]
        assert results[0] == results[1], (sql, parameters)
        self.done += not isinstance(results[0], str)
        return results[0]

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


def outcome(connection: firndb.Connection, sql: str, parameters: list[Any] | None) -> Any:
    """Everything that a program can see of a statement."""
    try:
        connection.execute(sql, parameters)
        if connection.description is None:
            return (connection.rowcount, None, None, connection.in_transaction)
        described = (connection.rowcount, str(connection.description))
        return (*described, repr(connection.fetchall()), connection.in_transaction)
    except firndb.Error as error:
        told = (type(error).__name__, error.sqlstate, str(error), error.detail, error.hint, error.position)
        return f"{told} {connection.in_transaction}"


@pytest.fixture
def twin() -> Iterator[Twin]:
    pair = Twin()
    pair.run(TABLE)
    pair.run(CHECKED)
    yield pair
    pair.close()


def value(rng: random.Random, column: str, odd: float = 0.15) -> Any:
    return rng.choice(ODD) if rng.random() < odd else rng.choice(FITTING[column])


def literal(given: Any) -> str | None:
    """A value as SQL writes it, where that is simple."""
    if given is None or isinstance(given, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[given]
    if isinstance(given, (int, Decimal)):
        return str(given)
    return f"'{given}'" if isinstance(given, str) and "'" not in given else None


def placed(rng: random.Random, template: str, columns: list[str], parameters: list[Any]) -> str:
    """The template with a parameter, sometimes a literal, in each place."""
    texts = []
    for column in columns:
        # Whether text that is no number meets a number depends on the other condition: on which is asked first.
        given = value(rng, column, 0 if len(columns) > 1 else 0.15)
        written = literal(given) if rng.random() < 0.15 else None
        if written is None:
            parameters.append(given)
        texts.append(written or "?")
    return template.format(*texts)


def condition(rng: random.Random, parameters: list[Any]) -> str:
    choice = 0 if rng.random() < 0.4 else rng.randrange(len(KEYS))
    return placed(rng, KEYS[choice], KEY_COLUMNS[choice], parameters)


def statement(rng: random.Random) -> tuple[str, list[Any]]:
    parameters: list[Any] = []
    kind = rng.random()
    lists = ["*", "n", "n, s", "id AS key, d, w, r, f", "tz, ts, tm, day", "k, j, x, c, v", "l", "b, b", "T.N, t.S"]
    listed = rng.choice(lists)
    if kind < 0.3:
        return f"SELECT {listed} FROM t WHERE {condition(rng, parameters)}", parameters
    returning = f" RETURNING {listed}" if rng.random() < 0.2 else ""
    if kind < 0.65:
        sets = []
        for column in rng.sample(list(COLUMNS), rng.choice([1, 1, 2])):
            template = rng.choice(["{0}", "{0}", "{1} + {0}", "{1} - {0}", "{0} + {1}", "{1}", "({1} + {0})"])
            if column in ("l", "c", "j") and "{1}" in template:
                template = "{0}"
            if "{0}" in template:
                sets.append(f"{column} = " + placed(rng, template.replace("{1}", column), [column], parameters))
            else:
                sets.append(f"{column} = {rng.choice([column, 'n', 'd', 's', 'id'])}")
        return f"UPDATE t SET {', '.join(sets)} WHERE {condition(rng, parameters)}{returning}", parameters
    if kind < 0.75:
        return f"DELETE FROM t WHERE {condition(rng, parameters)}{returning}", parameters
    if kind < 0.8:
        row = [rng.choice([1, 2, 3]), rng.choice([None, 0, 5, -5])]
        texts = [
            "INSERT INTO checked (id, n) VALUES (?, ?)",
            "UPDATE checked SET id = ?, n = ? WHERE id = 1",
            "UPDATE checked SET s = ? WHERE id = ?",
        ]
        return rng.choice(texts), row
    columns = rng.choice([list(COLUMNS), ["id"], ["id", "n", "s"], ["s", "id", "m"], ["id", "d", "w", "f", "day"]])
    texts = [placed(rng, "{}", [column], parameters) for column in columns]
    conflict = rng.choice(["", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (id) DO NOTHING"])
    return f"INSERT INTO t ({', '.join(columns)}) VALUES ({', '.join(texts)}){conflict}{returning}", parameters


def control(rng: random.Random, twin: Twin) -> None:
    """What changes transactions, tables and names."""
    if twin.connections[0].in_transaction:
        twin.run(rng.choice(["COMMIT", "ROLLBACK", "SAVEPOINT one", "ROLLBACK TO one", "RELEASE one", "COMMIT"]))
        return
    choice = rng.random()
    if choice < 0.6:
        twin.run("BEGIN")
        if rng.random() < 0.3:
            # Another transaction's change, which is not committed yet.
            twin.run("BEGIN", other=True)
            twin.run("UPDATE t SET n = 5 WHERE id = ?", [rng.randrange(6)], other=True)
            for _ in range(4):
                twin.run(*statement(rng))
            twin.run(rng.choice(["COMMIT", "ROLLBACK"]), other=True)
        return
    twin.run(
        rng.choice(
            [
                "ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 3",
                "ALTER TABLE t DROP COLUMN more",
                "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
                "ALTER TABLE t ALTER COLUMN v DROP NOT NULL",
                "ALTER TABLE t RENAME COLUMN small TO little",
                "ALTER TABLE t RENAME COLUMN little TO small",
                "CREATE TEMP TABLE t (id INTEGER PRIMARY KEY, n VARCHAR, s VARCHAR)",
                "DROP TABLE temp.t",
                "CREATE SCHEMA other",
                "CREATE TABLE other.t (id INTEGER PRIMARY KEY, n INTEGER, s VARCHAR)",
                "SET search_path = other, main",
                "RESET search_path",
                "CREATE VIEW other.t AS SELECT 1 AS id",
                "DROP SCHEMA other CASCADE",
                "SET timezone = 'Europe/Berlin'",
                "RESET timezone",
                "SET default_transaction_read_only = on",
                "SET default_transaction_read_only = off",
            ]
        )
    )


@pytest.mark.parametrize("seed", range(8))
def test_compiled_statements_do_what_the_general_way_does(twin: Twin, seed: int) -> None:
    rng = random.Random(seed)
    pool = [statement(rng) for _ in range(40)]
    for _ in range(2000):
        if rng.random() < 0.06:
            control(rng, twin)
        elif rng.random() < 0.7:
            # A text again, with other values.
            sql, parameters = rng.choice(pool)
            odd = 0 if " AND " in sql else 0.1
            changed = [rng.choice(ODD) if rng.random() < odd else given for given in parameters]
            if parameters and rng.random() < 0.5 and isinstance(parameters[-1], int):
                changed[-1] = rng.randrange(6)
            twin.run(sql, changed)
        else:
            pool[rng.randrange(len(pool))] = statement(rng)
    if twin.connections[0].in_transaction:
        twin.run("COMMIT")
    twin.run("SELECT * FROM main.t ORDER BY id")
    twin.run("SELECT * FROM checked ORDER BY id")
    assert twin.done > 100


COMPILED = [
    "SELECT * FROM checked WHERE id = 1",
    "SELECT n, s AS text, t.d FROM main.t WHERE id = -5",
    "SELECT x.n FROM t AS x WHERE x.id = 1",
    "SELECT n FROM t WHERE n = 1 AND (s = 'a')",
    "SELECT n FROM t WHERE day = DATE '2020-01-01'",
    "SELECT n FROM t WHERE d = 1.5",
    "UPDATE t SET n = n + 1, s = 'b', d = d - 0.5 WHERE id = 1 RETURNING n",
    "DELETE FROM checked WHERE id = 1 RETURNING *",
    "INSERT INTO t (id, n) VALUES (1, 2)",
    "INSERT INTO t (id, n) VALUES (1, 2) ON CONFLICT DO NOTHING RETURNING id",
    "UPDATE checked SET s = 'x' WHERE id = 1",
]
GENERAL = [
    "SELECT n + 1 FROM t WHERE id = 1",
    "SELECT n FROM t WHERE id = 1.5",
    "SELECT n FROM t WHERE id = '1'",
    "SELECT n FROM t WHERE id = 1 OR id = 2",
    "SELECT n FROM t WHERE id = 1 AND n = 2",
    "SELECT n FROM t WHERE n = 1",
    "SELECT n FROM t WHERE id > 1",
    "SELECT n FROM t WHERE id = NULL AND id = 1",
    "SELECT l FROM t WHERE id = 1",
    "SELECT n FROM t WHERE id = 1 ORDER BY n",
    "SELECT n FROM t WHERE id = 1 LIMIT 1",
    "SELECT DISTINCT n FROM t WHERE id = 1",
    "SELECT count(*) FROM t WHERE id = 1",
    "SELECT t.n FROM t, checked WHERE t.id = 1",
    "WITH one AS (SELECT 1) SELECT n FROM t WHERE id = 1",
    "UPDATE t SET n = m * 2 WHERE id = 1",
    "UPDATE t SET n = small + 1 WHERE id = 1",
    "UPDATE checked SET n = 1 WHERE id = 1",
    "DELETE FROM t USING checked WHERE t.id = 1",
    "INSERT INTO t (id, n) VALUES (1, 2), (2, 3)",
]


def explained(connection: firndb.Connection, sql: str) -> str:
    return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {sql}").fetchall())


@pytest.mark.parametrize("sql", COMPILED)
def test_explain_says_what_is_compiled(con: firndb.Connection, sql: str) -> None:
    con.execute(TABLE).execute(CHECKED)
    assert explained(con, sql).startswith("compiled: ")
    con.execute("SET compiled_statements = off")
    if not sql.startswith("INSERT"):
        assert "compiled" not in explained(con, sql)


@pytest.mark.parametrize("sql", GENERAL)
def test_what_is_not_certain_takes_the_general_way(con: firndb.Connection, sql: str) -> None:
    con.execute(TABLE).execute(CHECKED)
    assert "compiled" not in explained(con, sql)


def test_a_program_ends_with_its_catalog(con: firndb.Connection) -> None:
    other = con.cursor()
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a INTEGER)").execute("INSERT INTO p VALUES (1, 10)")

    def look() -> tuple[Any, list[str]]:
        con.execute("SELECT * FROM p WHERE id = ?", [1])
        assert con.description is not None
        return con.fetchall(), [column[0] for column in con.description]

    for _ in range(3):
        assert look() == ([(1, 10)], ["id", "a"])
    other.execute("ALTER TABLE p ADD COLUMN b VARCHAR DEFAULT 'new'")
    for _ in range(3):
        assert look() == ([(1, 10, "new")], ["id", "a", "b"])
    other.execute("DROP TABLE p")
    with pytest.raises(firndb.ProgrammingError, match='relation "p" does not exist'):
        look()
    other.execute("CREATE TABLE p (id VARCHAR PRIMARY KEY, c INTEGER)").execute("INSERT INTO p VALUES ('1', 3)")
    assert con.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(3,)]
    con.execute("CREATE TEMP TABLE p (id VARCHAR PRIMARY KEY, c INTEGER)").execute("INSERT INTO p VALUES ('1', 4)")
    for _ in range(3):
        assert con.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(4,)]
    assert other.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(3,)]
    con.execute("DROP TABLE temp.p")
    for _ in range(3):
        assert con.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(3,)]
    con.register("p", {"id": ["1"], "c": [5]})
    for _ in range(3):
        assert con.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(5,)]
    con.unregister("p")
    assert con.execute("SELECT c FROM p WHERE id = ?", ["1"]).fetchall() == [(3,)]


def test_a_transaction_keeps_its_snapshot_and_its_catalog(con: firndb.Connection) -> None:
    other = con.cursor()
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a INTEGER)").execute("INSERT INTO p VALUES (1, 10)")
    select = "SELECT * FROM p WHERE id = 1"
    for _ in range(2):
        con.execute(select)
    con.begin()
    assert con.execute(select).fetchall() == [(1, 10)]
    for _ in range(3):
        other.execute("UPDATE p SET a = a + 1 WHERE id = 1")
        assert con.execute(select).fetchall() == [(1, 10)]
    with pytest.raises(firndb.OperationalError) as raised:
        con.execute("UPDATE p SET a = a + 1 WHERE id = 1")
    assert raised.value.sqlstate == "40001"
    with pytest.raises(firndb.OperationalError) as raised:
        con.execute(select)
    assert raised.value.sqlstate == "25P02"
    con.rollback()
    assert con.execute(select).fetchall() == [(1, 13)]


def test_every_way_to_read_the_row(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, s VARCHAR, d DECIMAL(6, 2))")
    con.execute("INSERT INTO p VALUES (1, 'one', 1.5)")
    select = "SELECT s, d FROM p WHERE id = ?"
    con.execute(select, [1])
    general = con.arrow().schema
    for _ in range(2):
        assert con.execute(select, [1]).fetchone() == ("one", Decimal("1.50"))
        assert con.fetchone() is None
        assert con.fetchall() == []
        assert con.execute(select, [1]).fetchmany(0) == []
        assert con.fetchmany(5) == [("one", Decimal("1.50"))]
        assert con.fetchmany(5) == []
        assert con.execute(select, [1]).fetchall() == [("one", Decimal("1.50"))]
        assert list(con.execute(select, [1])) == [("one", Decimal("1.50"))]
        assert con.rowcount == -1
        table = con.execute(select, [1]).arrow()
        assert table.schema == general
        assert table.to_pylist() == [{"s": "one", "d": Decimal("1.50")}]
        with pytest.raises(firndb.InterfaceError, match="read already"):
            con.fetch_record_batch()
        con.execute(select, [1]).fetchone()
        assert con.arrow().num_rows == 0
        assert con.execute(select, [2]).arrow().num_rows == 0
        assert con.execute(select, [2]).fetchone() is None
        assert con.execute(select, [1]).df()["s"].tolist() == ["one"]
        assert list(con.execute(select, [1]).fetchnumpy()["d"]) == [1.5]


def test_a_value_that_python_has_not_stays(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, day DATE)").execute("INSERT INTO p VALUES (1, '20000-01-01')")
    for _ in range(3):
        con.execute("SELECT day FROM p WHERE id = 1")
        for _ in range(2):
            with pytest.raises(firndb.DataError, match="the year 20000"):
                con.fetchone()
        assert con.arrow().num_rows == 1


def test_an_open_result_is_not_changed_by_a_compiled_write(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a INTEGER)")
    con.executemany("INSERT INTO p VALUES (?, ?)", [(i, 0) for i in range(10)])
    update = "UPDATE p SET a = a + 1 WHERE id = ?"
    for i in range(10):
        con.execute(update, [i])
    con.begin()
    con.execute(update, [3])
    rows = con.sql("SELECT sum(a) FROM p")
    stream = con.sql("SELECT a FROM p").fetch_record_batch()
    for i in range(10):
        con.execute(update, [i])
    assert sum(batch.column(0).to_pylist()[k] for batch in stream for k in range(batch.num_rows)) == 11
    assert rows.fetchall() == [(21,)]
    con.rollback()
    assert con.execute("SELECT sum(a) FROM p").fetchone() == (10,)


@pytest.mark.parametrize("transactions", [False, True])
def test_threads_that_increment_one_row_lose_nothing(con: firndb.Connection, transactions: bool) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a INTEGER)").execute("INSERT INTO p VALUES (1, 0)")
    threads, times = 16, 200
    failures: list[firndb.Error] = []

    def increment() -> None:
        own = con.cursor()
        for _ in range(times):
            while True:
                try:
                    if transactions:
                        with own.transaction():
                            own.execute("UPDATE p SET a = a + ? WHERE id = ?", [1, 1])
                    else:
                        own.execute("UPDATE p SET a = a + ? WHERE id = ?", [1, 1])
                    break
                except firndb.OperationalError as error:
                    if not transactions or error.sqlstate != "40001":
                        failures.append(error)
                        return

    workers = [threading.Thread(target=increment) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert con.execute("SELECT a FROM p WHERE id = 1").fetchone() == (threads * times,)


def test_executemany_runs_each_row_or_none(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a SMALLINT, s VARCHAR)")
    con.executemany("INSERT INTO p VALUES (?, ?, ?)", [(i, 0, None if i % 2 else str(i)) for i in range(100)])
    con.executemany("UPDATE p SET a = a + ? WHERE id = ?", [(1, i % 50) for i in range(200)])
    assert con.rowcount == 200
    assert con.execute("SELECT min(a), max(a), sum(a), count(s) FROM p").fetchone() == (0, 4, 200, 50)
    with pytest.raises(firndb.DataError):
        con.executemany("UPDATE p SET a = a + ? WHERE id = ?", [(1, 1), (32767, 1)])
    with pytest.raises(firndb.IntegrityError):
        con.executemany("INSERT INTO p VALUES (?, ?, ?)", [(200, 1, "x"), (5, 1, "x")])
    assert con.rowcount == -1
    assert con.execute("SELECT sum(a), count(*) FROM p").fetchone() == (200, 100)
    con.executemany("DELETE FROM p WHERE id = ?", [[i] for i in range(100)])
    assert con.execute("SELECT count(*) FROM p").fetchone() == (0,)
    first: list[tuple[Any, ...]] = [(1, 2.5, "a"), (2, None, "b")]
    for rows in (first, [(3, 1, "a"), (4, Decimal("1.5"), None)], [("5", 1, "a")], [(6, True, b"a")]):
        con.executemany("INSERT INTO p VALUES (?, ?, ?)", rows)
    assert con.execute("SELECT * FROM p ORDER BY id").fetchall() == [
        (1, 2, "a"), (2, None, "b"), (3, 1, "a"), (4, 2, None), (5, 1, "a"), (6, 1, "a"),
    ]  # fmt: skip


def test_a_result_that_is_still_open_does_not_see_what_the_transaction_writes_next(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, a INTEGER)")
    con.executemany("INSERT INTO p VALUES (?, ?)", [(i, 0) for i in range(100_000)])
    update = "UPDATE p SET a = a + ? WHERE id = ?"
    con.execute(update, [0, 0])
    con.begin()
    con.execute(update, [1, 5])
    relation = con.sql("SELECT id, a FROM p WHERE a >= 0")
    first = relation.fetchmany(3)
    for i in range(0, 100_000, 1000):
        con.execute(update, [1, i])
    con.rollback()
    rest = relation.fetchall()
    assert len(first) == 3
    assert sum(a for _, a in rest) == 1
    assert con.execute("SELECT sum(a) FROM p").fetchone() == (0,)
