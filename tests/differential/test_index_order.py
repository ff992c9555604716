"""Orders, least and greatest values, and ranges read through indexes: as without an index, and as in DuckDB."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import firndb
import pytest

ROWS = 6_000
TYPES = ("INTEGER", "BIGINT", "VARCHAR", "DECIMAL(9,2)", "DATE", "BOOLEAN", "DECIMAL(30,4)", "TIMESTAMP")


def literal(r: random.Random, type_: str, nulls: bool) -> str:
    """A value; NULL one time in eight."""
    if nulls and r.random() < 1 / 8:
        return "NULL"
    match type_:
        case "INTEGER" | "BIGINT":
            return str(r.randint(-2_000, 2_000))
        case "VARCHAR":
            return "'" + r.choice(["", "a", "b", "ab", "Ünï"]) + str(r.randint(0, 900)) + "'"
        case "DATE":
            return f"DATE '{r.randint(1970, 2030)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}'"
        case "TIMESTAMP":
            return f"TIMESTAMP '{r.randint(1970, 2030)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d} 0{r.randint(0, 9)}:30:00'"
        case "BOOLEAN":
            return r.choice(["TRUE", "FALSE"])
        case _:
            return f"CAST({r.randint(-50_000, 50_000) / 100:.2f} AS {type_})"


class Case:
    """A table with indexes, one without, and DuckDB's."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.nulls = [r.random() < 0.5 for _ in range(3)]
        self.types = [r.choice(TYPES) for _ in range(3)]
        self.ours = firndb.connect()
        self.duck = duckdb.connect()
        columns = ", ".join(
            f"c{i} {type_}{'' if nulls else ' NOT NULL'}"
            for i, (type_, nulls) in enumerate(zip(self.types, self.nulls, strict=True))
        )
        for name in ("t", "plain"):
            key = "PRIMARY KEY" if name == "t" else ""
            self.ours.execute(f"CREATE TABLE {name} (id BIGINT {key}, {columns})")
        self.duck.execute(f"CREATE TABLE t (id BIGINT, {columns})")
        for number in range(r.randint(1, 3)):
            parts = r.sample(range(3), r.randint(1, 2))
            listed = ", ".join(f"c{part}{r.choice(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}" for part in parts)
            where = r.choice(["", "", " WHERE c0 IS NOT NULL"])
            self.ours.execute(f"CREATE INDEX i{number} ON t ({listed}){where}")
        self.insert(range(ROWS))

    def each(self, sql: str) -> None:
        """Changes all three tables."""
        self.ours.execute(sql.format(t="t"))
        self.ours.execute(sql.format(t="plain"))
        self.duck.execute(sql.format(t="t"))

    def insert(self, ids: range) -> None:
        values = [
            f"({i}, {', '.join(literal(self.random, *column) for column in zip(self.types, self.nulls, strict=True))})"
            for i in ids
        ]
        self.each(f"INSERT INTO {{t}} VALUES {', '.join(values)}")

    def change(self) -> None:
        """Rows go, change their keys, and come."""
        r = self.random
        first = r.randint(0, ROWS)
        self.each(f"DELETE FROM {{t}} WHERE id BETWEEN {first} AND {first + r.randint(0, 900)}")
        column = r.randrange(3)
        value = literal(r, self.types[column], self.nulls[column])
        self.each(f"UPDATE {{t}} SET c{column} = {value} WHERE id % {r.randint(7, 40)} = 0")
        start = self.ours.execute("SELECT max(id) + 1 FROM plain").fetchone()[0]
        self.insert(range(start, start + 200))
        # The ends of the key: deleted, so that entries lead to nothing.
        self.each(f"DELETE FROM {{t}} WHERE id >= {start + r.randint(100, 200)}")

    def condition(self) -> str:
        r = self.random
        column = r.randrange(3)
        value = literal(r, self.types[column], False)
        return r.choice(
            [
                "",
                "",
                "WHERE id > 100",
                f"WHERE c{column} {r.choice(['<', '<=', '>', '>=', '='])} {value}",
                f"WHERE c{column} IS NOT NULL",
                "WHERE id % 3 = 1",
                "WHERE id % 1999 = 7",
                f"WHERE c{column} = {value} AND id % 2 = 0",
                "WHERE id < 0",
                "WHERE c0 IS NOT NULL AND c1 IS NOT NULL",
            ]
        )

    def check(self) -> int:
        """Compares some queries; how many of them tried an index."""
        r = self.random
        tried = 0
        for _ in range(25):
            where = self.condition()
            keys = r.choice([["id"], [f"c{r.randrange(3)}"], [f"c{c}" for c in r.sample(range(3), 2)]])
            order = ", ".join(key + r.choice(["", " DESC"]) + r.choice([" NULLS FIRST", " NULLS LAST"]) for key in keys)
            limit = r.choice(["LIMIT 1", "LIMIT 5", "LIMIT 20", "LIMIT 3 OFFSET 4"])
            if r.random() < 0.5:
                sql = f"SELECT {', '.join(keys)} FROM {{t}} {where} ORDER BY {order} {limit}"
            else:
                calls = ", ".join(
                    f"{r.choice(['min', 'max'])}({r.choice(['id', 'c0', 'c1', 'c2'])})" for _ in range(r.randint(1, 2))
                )
                sql = f"SELECT {calls} FROM {{t}} {where}"
            answers = [
                self.ours.execute(sql.format(t="t")).fetchall(),
                self.ours.execute(sql.format(t="plain")).fetchall(),
                self.duck.execute(sql.format(t="t")).fetchall(),
            ]
            assert answers[0] == answers[1], sql
            assert answers[0] == answers[2], sql
            plan: Any = self.ours.execute("EXPLAIN " + sql.format(t="t")).fetchall()
            tried += "IndexFirst" in str(plan)
        return tried


@pytest.mark.parametrize("seed", range(12))
def test_orders_and_extremes_by_index_are_those_of_all_rows(seed: int) -> None:
    case = Case(seed)
    tried = case.check()
    case.ours.execute("BEGIN")
    case.change()
    tried += case.check()
    case.ours.execute("COMMIT")
    tried += case.check()
    assert tried > 0


def test_an_order_by_index_sees_the_rows_of_its_snapshot() -> None:
    database = firndb.connect()
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
    database.execute("INSERT INTO t SELECT i, i % 100 FROM generate_series(1, 5000) AS s(i)")
    database.execute("CREATE INDEX t_v ON t (v)")
    reader = database.cursor() if hasattr(database, "cursor") else database
    reader.execute("BEGIN")
    first = "SELECT id FROM t ORDER BY id LIMIT 3"
    last = "SELECT id FROM t ORDER BY id DESC LIMIT 2"
    assert "IndexFirst" in str(reader.execute("EXPLAIN " + first).fetchall())
    assert reader.execute(first).fetchall() == [(1,), (2,), (3,)]
    reader.execute("INSERT INTO t VALUES (-5, 1)")
    reader.execute("DELETE FROM t WHERE id = 5000")
    reader.execute("UPDATE t SET id = 9000 WHERE id = 2")
    assert reader.execute(first).fetchall() == [(-5,), (1,), (3,)]
    assert reader.execute(last).fetchall() == [(9000,), (4999,)]
    assert reader.execute("SELECT min(id), max(id) FROM t").fetchall() == [(-5, 9000)]
    reader.execute("ROLLBACK")
    assert reader.execute(first).fetchall() == [(1,), (2,), (3,)]
    assert reader.execute(last).fetchall() == [(5000,), (4999,)]


@pytest.mark.parametrize("seed", range(8))
def test_joins_of_few_rows_by_index_are_those_of_all_rows(seed: int) -> None:
    r = random.Random(seed)
    ours, duck = firndb.connect(), duckdb.connect()
    type_ = r.choice(["BIGINT", "INTEGER", "VARCHAR", "DATE"])
    rows = [(i, literal(r, type_, True)) for i in range(ROWS)]
    few = [literal(r, type_, True) for _ in range(r.randint(0, 12))]
    for connection in (ours, duck):
        for name in ("t", "plain"):
            connection.execute(f"CREATE TABLE {name} (id BIGINT, c {type_})")
            connection.execute(f"INSERT INTO {name} VALUES " + ", ".join(f"({i}, {value})" for i, value in rows))
        connection.execute(f"CREATE TABLE few (k {type_}, label BIGINT)")
        if few:
            connection.execute("INSERT INTO few VALUES " + ", ".join(f"({value}, {i})" for i, value in enumerate(few)))
    ours.execute(f"CREATE {r.choice(['', 'UNIQUE '])}INDEX i_id ON t (id)")
    ours.execute("CREATE INDEX i_c ON t (c)")
    found = 0
    ours.execute("BEGIN")
    for change in (None, "DELETE FROM {t} WHERE id % 3 = 0", "UPDATE {t} SET c = (SELECT min(k) FROM few) WHERE id % 11 = 1"):
        if change:
            for connection, name in ((ours, "t"), (ours, "plain"), (duck, "t")):
                connection.execute(change.format(t=name))
        for join in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"):
            for columns in ("few.label, x.id, x.c", "count(*), sum(x.id)"):
                sql = f"SELECT {columns} FROM few {join} {{t}} AS x ON x.c = few.k"
                answers = [
                    sorted(
                        str([None if v is None else str(v) for v in row])
                        for row in connection.execute(sql.format(t=name)).fetchall()
                    )
                    for connection, name in ((ours, "t"), (ours, "plain"), (duck, "t"))
                ]
                assert answers[0] == answers[1] == answers[2], sql
                found += "index for few keys=i_c" in str(ours.execute("EXPLAIN " + sql.format(t="t")).fetchall())
    assert found > 0
    ours.execute("COMMIT")
