"""Generates schemas, data and statements from a seed, in the SQL that FirnDB, DuckDB and (where said) SQLite share.

Doubles are multiples of 1/4 below 2**20, so that sums are exact in any order. Integers reach the extremes of their types,
so that sums and products overflow: the engines must agree on that too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

TYPES = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR", "BOOLEAN", "DATE")
# SQLite has one integer type, of 64 bits.
PORTABLE_TYPES = ("BIGINT", "VARCHAR")
WORDS = ("", "a", "A", "ab", "abc", "snow", "firn", "ice", "Ünï", "a%b", "glacier of the north", "'quoted'")


@dataclass(frozen=True)
class Column:
    """A column of a generated table."""

    name: str
    type: str


@dataclass(frozen=True)
class Table:
    """A generated table with its rows as SQL literals."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def of_type(self, *types: str) -> list[Column]:
        """Its columns of the given types."""
        return [column for column in self.columns if column.type in types]


class Generator:
    """One database's worth of statements. `portable` keeps to what SQLite answers alike."""

    def __init__(self, seed: int, portable: bool) -> None:
        self.random = random.Random(seed)
        self.portable = portable
        self.key = "BIGINT" if portable else "INTEGER"
        self.tables = [self.table(f"t{i}") for i in range(3)]
        # What subqueries read.
        self.inner = self.tables

    # Schemas and data

    def literal(self, type_: str) -> str:
        """A literal of a type, NULL one time in six."""
        r = self.random
        if r.random() < 1 / 6:
            return "NULL"
        match type_:
            case "INTEGER":
                return str(r.choice([0, 1, -1, 2, 7, 2147483647, -2147483647, r.randint(-50, 50), r.randint(-50, 50)]))
            case "BIGINT":
                return str(r.choice([0, 1, -3, 10**12, -(10**12), r.randint(-9, 9), r.randint(-9, 9)]))
            case "DOUBLE":
                return f"CAST({r.randint(-(2**22), 2**22) / 4!r} AS DOUBLE)"
            case "DECIMAL(9,2)":
                return f"CAST({r.choice([0, 1, -1, 999999999, r.randint(-10000, 10000)]) / 100:.2f} AS DECIMAL(9,2))"
            case "VARCHAR":
                return "'" + r.choice(WORDS).replace("'", "''") + "'"
            case "BOOLEAN":
                return r.choice(["TRUE", "FALSE"])
            case _:
                return f"DATE '{r.randint(1970, 2040)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}'"

    def table(self, name: str) -> Table:
        """A table of 2 to 5 columns and 0 to 40 rows; the first column is always an integer."""
        types = PORTABLE_TYPES if self.portable else TYPES
        columns = [Column("k", self.key)]
        columns += [Column(f"c{i}", self.random.choice(types)) for i in range(self.random.randint(1, 4))]
        rows = tuple(tuple(self.literal(column.type) for column in columns) for _ in range(self.random.choice([0, 1, 5, 20, 40])))
        return Table(name, tuple(columns), rows)

    def setup(self) -> list[str]:
        """CREATE and INSERT statements."""
        statements = []
        for table in self.tables:
            columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
            statements.append(f"CREATE TABLE {table.name} ({columns})")
            for row in table.rows:
                statements.append(f"INSERT INTO {table.name} VALUES ({', '.join(row)})")
        return statements

    # Expressions; `scope` maps an alias to its table

    def column(self, scope: dict[str, Table], *types: str) -> str | None:
        """A qualified column of one of the types, if there is one."""
        found = [f"{alias}.{column.name}" for alias, table in scope.items() for column in table.of_type(*types)]
        return self.random.choice(found) if found else None

    def number(self, scope: dict[str, Table], depth: int = 2) -> str:
        """An integer expression that may overflow."""
        r = self.random
        if depth == 0 or r.random() < 0.4:
            return self.column(scope, "INTEGER", "BIGINT") or str(r.randint(-5, 5))
        left, right = self.number(scope, depth - 1), self.number(scope, depth - 1)
        match r.randint(0, 4):
            case 0:
                return f"({left} + {right})"
            case 1:
                return f"({left} - {right})"
            case 2:
                return f"({left} * {r.randint(-3, 3)})"
            case 3:
                return f"coalesce({left}, {right})"
            case _:
                return f"CASE WHEN {self.predicate(scope, depth - 1)} THEN {left} ELSE {right} END"

    def value(self, scope: dict[str, Table], subqueries: bool = True) -> str:
        """An expression of any type."""
        r = self.random
        choices = [self.number(scope), self.number(scope), self.column(scope, "VARCHAR")]
        if subqueries:
            choices.append(self.subquery(scope))
        if not self.portable:
            decimal = self.column(scope, "DECIMAL(9,2)")
            choices += [self.column(scope, *TYPES)]
            if decimal:
                choices += [f"({decimal} + {r.randint(0, 9)})", f"(1 - {decimal})", f"({decimal} * {decimal})", f"-{decimal}"]
            double = self.column(scope, "DOUBLE")
            if double:
                choices += [f"({double} + 0.25)", f"({double} * 2)"]
        return r.choice([choice for choice in choices if choice])

    def predicate(self, scope: dict[str, Table], depth: int = 2) -> str:
        """A condition, with subqueries in it now and then."""
        r = self.random
        if depth > 0 and r.random() < 0.4:
            left, right = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return r.choice([f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"])
        types = PORTABLE_TYPES if self.portable else TYPES
        type_ = r.choice(types)
        column = self.column(scope, type_)
        if column is None:
            column, type_ = f"{r.choice(list(scope))}.k", self.key
        match r.randint(0, 8):
            case 0:
                return f"{column} IS {r.choice(['', 'NOT '])}NULL"
            case 1:
                return f"{column} {r.choice(['', 'NOT '])}IN ({', '.join(self.literal(type_) for _ in range(3))})"
            case 2:
                return f"{column} BETWEEN {self.literal(type_)} AND {self.literal(type_)}"
            case 3 if type_ == "VARCHAR" and not self.portable:
                return f"{column} {r.choice(['', 'NOT '])}LIKE '{r.choice(['a%', '%b%', '_', '%', 'firn'])}'"
            case 4:
                inner = r.choice(self.inner)
                name = r.choice([c.name for c in inner.of_type(self.key)])
                number = self.column(scope, self.key)
                condition = f"s.k {r.choice(['<', '>', '='])} {r.randint(-5, 5)}"
                if r.random() < 0.3:
                    condition = self.correlation(scope)
                return f"{number} {r.choice(['', 'NOT '])}IN (SELECT s.{name} FROM {inner.name} s WHERE {condition})"
            case 5:
                inner = r.choice(self.inner)
                tail = r.choice(["", "", " GROUP BY s.k HAVING count(*) > 1", " LIMIT 1 OFFSET 1"])
                return f"{r.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {inner.name} s WHERE {self.correlation(scope)}{tail})"
            case 6:
                return f"{self.column(scope, self.key)} >= {self.subquery(scope)}"
            case _:
                return f"{column} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {self.literal(type_)}"

    def correlation(self, scope: dict[str, Table]) -> str:
        """A condition of a subquery's rows `s` on the row outside."""
        r = self.random
        condition = f"s.k {r.choice(['=', '=', '<', '<=', '<>', '>'])} {self.column(scope, self.key)}"
        if r.random() < 0.2:
            condition += (
                f" {r.choice(['AND', 'OR'])} coalesce(s.k, 0) > coalesce({self.column(scope, self.key)}, {r.randint(-5, 5)})"
            )
        return condition

    def subquery(self, scope: dict[str, Table]) -> str:
        """A scalar subquery that may depend on the row."""
        r = self.random
        inner = r.choice(self.inner).name
        where = f" WHERE {self.correlation(scope)}" if r.random() < 0.7 else ""
        match r.randint(0, 3):
            case 0:
                return f"(SELECT s.k FROM {inner} s{where} ORDER BY s.k DESC NULLS LAST LIMIT 1)"
            case 1:
                return f"(SELECT count(*) FROM (SELECT DISTINCT s.k FROM {inner} s{where}) g)"
            case 2:
                return f"(SELECT count(s.k) + {self.column(scope, self.key)} FROM {inner} s{where})"
            case _:
                return f"(SELECT {r.choice(['min', 'max', 'count'])}(s.k) FROM {inner} s{where})"

    # Queries

    def source(self) -> tuple[str, dict[str, Table]]:
        """A FROM clause and what its aliases mean."""
        r = self.random
        first, second = r.choice(self.tables), r.choice(self.tables)
        match r.randint(0, 4):
            case 0 | 1:
                return f"{first.name} a", {"a": first}
            case 2:
                return f"{first.name} a JOIN {second.name} b ON a.k = b.k", {"a": first, "b": second}
            case 3:
                return f"{first.name} a LEFT JOIN {second.name} b ON a.k = b.k AND b.k > 0", {"a": first, "b": second}
            case _:
                if self.portable:
                    return f"{first.name} a, {second.name} b", {"a": first, "b": second}
                return f"{first.name} a FULL JOIN {second.name} b ON a.k = b.k", {"a": first, "b": second}

    def query(self) -> str:
        """A query whose answer is the same multiset everywhere."""
        r = self.random
        source, scope = self.source()
        where = f" WHERE {self.predicate(scope)}" if r.random() < 0.7 else ""
        match r.randint(0, 5):
            case 0:
                keys = [self.value(scope, subqueries=False) for _ in range(r.randint(1, 2))]
                having = " HAVING count(*) > 1" if r.random() < 0.3 else ""
                groups = ", ".join(str(i + 1) for i in range(len(keys)))
                return f"SELECT {', '.join(keys)}, {self.aggregates(scope)} FROM {source}{where} GROUP BY {groups}{having}"
            case 1:
                return f"SELECT {self.aggregates(scope)} FROM {source}{where}"
            case 2:
                return f"SELECT DISTINCT {self.value(scope)}, {self.value(scope)} FROM {source}{where}"
            case 3:
                one, two = r.choice(self.tables), r.choice(self.tables)
                operator = r.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
                first, second = {"a": one}, {"b": two}
                return (
                    f"SELECT {self.number(first, 1)} FROM {one.name} a WHERE {self.predicate(first)} "
                    f"{operator} SELECT {self.number(second, 1)} FROM {two.name} b"
                )
            case 4:
                key = self.column(scope, self.key)
                return (
                    f"SELECT {key}, rank() OVER (ORDER BY {key} NULLS FIRST), "
                    f"count(*) OVER (PARTITION BY {key}), sum({key}) OVER (PARTITION BY {key}) FROM {source}{where}"
                )
            case _:
                return f"SELECT {', '.join(self.value(scope) for _ in range(r.randint(1, 4)))} FROM {source}{where}"

    def aggregates(self, scope: dict[str, Table]) -> str:
        """A list of aggregates."""
        r = self.random
        number = self.column(scope, "INTEGER", "BIGINT")
        choices = [
            "count(*)",
            f"count({self.column(scope, *(PORTABLE_TYPES if self.portable else TYPES))})",
            f"count(DISTINCT {number})",
            f"sum({number})",
            f"min({self.value(scope)})",
            f"max({number})",
        ]
        if not self.portable:
            numeric = self.column(scope, "INTEGER", "DOUBLE", "DECIMAL(9,2)")
            choices += [f"sum({numeric})", f"avg({numeric})", f"count(*) FILTER (WHERE {self.predicate(scope, 1)})"]
        return ", ".join(r.sample(choices, r.randint(1, 3)))

    def write(self) -> tuple[str, str]:
        """A writing statement and the table that it changes."""
        table = self.random.choice(self.tables)
        # SQLite's subqueries see what the statement has written already.
        self.inner = [other for other in self.tables if other is not table] if self.portable else self.tables
        try:
            return self.write_to(table)
        finally:
            self.inner = self.tables

    def write_to(self, table: Table) -> tuple[str, str]:
        """A statement that changes a table."""
        r = self.random
        scope = {table.name: table}
        match r.randint(0, 4):
            case 0:
                return f"DELETE FROM {table.name} WHERE {self.predicate(scope)}", table.name
            case 1:
                other = r.choice(self.tables)
                return (
                    f"INSERT INTO {table.name} (k) SELECT a.k FROM {other.name} a WHERE {self.predicate({'a': other})}",
                    table.name,
                )
            case 2 if table.of_type("VARCHAR"):
                column = r.choice(table.of_type("VARCHAR")).name
                return f"UPDATE {table.name} SET {column} = {self.literal('VARCHAR')} WHERE {self.predicate(scope)}", table.name
            case 3:
                other = r.choice(self.inner)
                inner = f"(SELECT max(s.k) FROM {other.name} s WHERE s.k = {table.name}.k)"
                return f"UPDATE {table.name} SET k = {inner} WHERE {self.predicate(scope)}", table.name
            case _:
                return f"UPDATE {table.name} SET k = {self.number(scope, 1)} WHERE {self.predicate(scope)}", table.name


def multiset(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own that does not depend on the engine."""
    return sorted(rows, key=lambda row: tuple((value is not None, str(type(value)), str(value)) for value in row))
