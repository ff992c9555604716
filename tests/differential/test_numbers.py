"""Numbers of different types compare in every place as one definition says.

The definition: two exact numbers (integers, decimals) compare exactly; beside a floating point number both are doubles, a REAL
exactly what it is as one; -0.0 equals 0.0; NaN equals NaN, whatever its bits, and is greater than all numbers; NULL is unknown.
PostgreSQL compares so; DuckDB does but for REAL, beside which it cuts the other side to a REAL.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import firndb
import pyarrow as pa
import pytest

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0123))[0]


def real(value: float) -> float:
    """The nearest REAL."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


INF = math.inf
DOUBLES = [
    INF,
    -INF,
    math.nan,
    NEGATIVE_NAN,
    ODD_NAN,
    0.0,
    -0.0,
    1e-20,
    -1e-20,
    1e16,
    1e300,
    5e-324,
    -5e-324,
    0.1,
    real(0.1),
    1.0,
    5.0,
]
VALUES: dict[str, list[Any]] = {
    "DOUBLE": [*DOUBLES, 2.0**53, 9.99, None],
    "REAL": [
        INF,
        -INF,
        math.nan,
        NEGATIVE_NAN,
        0.0,
        -0.0,
        real(1e-20),
        real(1e16),
        real(1e-45),
        real(0.1),
        1.0,
        5.0,
        2.0**24,
        None,
    ],
    "DECIMAL(10,2)": [Decimal(v) for v in ("0.00", "0.10", "-5.00", "1.00", "5.00", "9.99")] + [None],
    "DECIMAL(38,20)": [
        Decimal(v) for v in ("0", "0.1", "1e-20", "1", "10000000000000000", "10000000000000000.00000000000000000001")
    ]
    + [None],
    "BIGINT": [0, 1, 5, -5, 2**24 + 1, 2**53, 2**53 + 1, 10**16, None],
}
TYPES = list(VALUES)
PAIRS = [(left, right) for left, right in product(TYPES, TYPES) if {"DOUBLE", "REAL"} & {left, right}]
STORAGE = ["hot", "frozen", "indexed"]


def order(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; None where one of the two is NULL."""
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) - math.isnan(right)
    return (left > right) - (left < right)


OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda o: o == 0,
    "<>": lambda o: o != 0,
    "<": lambda o: o < 0,
    "<=": lambda o: o <= 0,
    ">": lambda o: o > 0,
    ">=": lambda o: o >= 0,
}


def literal(value: Any, kind: str) -> str:
    return "NULL" if value is None else f"'{value!r}'::{kind}" if isinstance(value, float) else f"'{value}'::{kind}"


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("DECIMAL"):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {"DOUBLE": pa.float64(), "REAL": pa.float32(), "BIGINT": pa.int64()}[kind]


def array(values: list[Any], kind: str) -> pa.Array:
    """The values with the bits of their NaNs."""
    if kind == "REAL":
        bits = [
            None if v is None else (0xFFC0_0000 if v is NEGATIVE_NAN else struct.unpack("<I", struct.pack("<f", v))[0])
            for v in values
        ]
        return pa.array(bits, pa.uint32()).view(pa.float32())
    if kind.startswith("DECIMAL"):
        return pa.array([None if v is None else Decimal(v) for v in values], arrow_type(kind))
    return pa.array(values, arrow_type(kind))


class Values:
    """Tables `a` and `b` of a type's values each, and `p` of all pairs."""

    def __init__(self, left: str, right: str, storage: str) -> None:
        self.types = (left, right)
        self.a, self.b = VALUES[left], VALUES[right]
        self.pairs = list(product(self.a, self.b))
        self.con = firndb.connect()
        index = storage == "indexed"
        for name, kind, values in (("a", left, self.a), ("b", right, self.b)):
            self.con.execute(f"CREATE TABLE {name} (i INTEGER, v {kind})")
            self.con.append(name, pa.table({"i": pa.array(range(len(values)), pa.int32()), "v": array(values, kind)}))
        self.con.execute(f"CREATE TABLE p (i INTEGER, x {left}, y {right})")
        xs, ys = array([x for x, _ in self.pairs], left), array([y for _, y in self.pairs], right)
        self.con.append("p", pa.table({"i": pa.array(range(len(self.pairs)), pa.int32()), "x": xs, "y": ys}))
        if index:
            self.con.execute("CREATE INDEX a_v ON a (v); CREATE INDEX b_v ON b (v); CREATE INDEX p_x ON p (x)")
        if storage != "hot":
            self.con.execute("PRAGMA freeze('a'); PRAGMA freeze('b'); PRAGMA freeze('p')")

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return sorted(self.con.execute(sql, parameters).fetchall(), key=str)

    def where(self, condition: Callable[[Any, Any], bool | None]) -> list[tuple[int]]:
        return sorted(((i,) for i, (x, y) in enumerate(self.pairs) if condition(x, y)), key=str)


@pytest.fixture(params=[(*pair, storage) for pair in PAIRS for storage in STORAGE], ids="-".join)
def values(request: pytest.FixtureRequest) -> Iterator[Values]:
    made = Values(*request.param)
    yield made
    made.con.close()


def equal(left: Any, right: Any) -> bool | None:
    compared = order(left, right)
    return None if compared is None else compared == 0


def identity(value: Any) -> Any:
    """The same for equal values of one type."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def test_columns_compare_alike_in_every_spelling(values: Values) -> None:
    for name, holds in OPERATORS.items():

        def condition(x: Any, y: Any, holds: Callable[[int], bool] = holds) -> bool | None:
            compared = order(x, y)
            return None if compared is None else holds(compared)

        expected = values.where(condition)
        for text in (f"x {name} y", f"x*1 {name} y", f"x {name} y*1", f"NOT NOT (x {name} y)"):
            assert values.rows(f"SELECT i FROM p WHERE {text}") == expected, text
        assert values.rows(f"SELECT i FROM (SELECT i, x {name} y AS t FROM p) WHERE t") == expected, name
    spellings = [
        "x IN (y)",
        "x IN (y, NULL)",
        "x IN (x+NULL, y)",
        "x BETWEEN y AND y",
        "CASE x WHEN y THEN true ELSE false END",
        "x = ANY(ARRAY[y])",
        "y = ANY(ARRAY[x])",
        "x = ANY([y, NULL])",
        "list_contains([x], y)",
        "list_contains([NULL, y], x)",
        "list_position([x], y) = 1",
        "list_has_any([x], [y])",
        "[x] = [y]",
        "[[x]] = [[y]]",
        "NOT [x] <> [y]",
        "[x] <= [y] AND [x] >= [y]",
        "{'k': x} = {'k': y}",
        "x IN (SELECT q.y FROM p q WHERE q.i = p.i)",
        "x = ANY (SELECT q.y FROM p q WHERE q.i = p.i)",
        "EXISTS (SELECT 1 FROM p q WHERE q.y = p.x AND q.i = p.i)",
        "(x, i) IN (SELECT q.y, q.i FROM p q)",
        "(x, 1) = (y, 1)",
        "(x, 1) IN ((y, 1))",
        "x <= y AND NOT x < y",
    ]
    expected = values.where(equal)
    known = "x IS NOT NULL AND y IS NOT NULL AND "
    for text in spellings:
        assert values.rows(f"SELECT i FROM p WHERE {known}{text}") == expected, text
        assert values.rows(f"SELECT i FROM (SELECT i, x, y, {text} AS t FROM p) WHERE {known}t") == expected, text
    assert values.rows(f"SELECT i FROM p WHERE {known} nullif(x, y) IS NULL") == expected
    different = values.where(lambda x, y: equal(x, y) is False)
    for text in (
        "x NOT IN (y)",
        "x <> ALL (SELECT q.y FROM p q WHERE q.i = p.i)",
        "x NOT IN (SELECT q.y FROM p q WHERE q.i = p.i)",
        "x NOT BETWEEN y AND y",
    ):
        assert values.rows(f"SELECT i FROM p WHERE {known}{text}") == different, text
    same = values.where(lambda x, y: equal(x, y) if x is not None and y is not None else x is y)
    for text in ("x IS NOT DISTINCT FROM y", "NOT x IS DISTINCT FROM y"):
        assert values.rows(f"SELECT i FROM p WHERE {text}") == same, text


def test_joins_match_what_is_equal(values: Values) -> None:
    matches = sorted(((i, j) for (i, x), (j, y) in product(enumerate(values.a), enumerate(values.b)) if equal(x, y)), key=str)
    for text in (
        "SELECT a.i, b.i FROM a JOIN b ON a.v = b.v",
        "SELECT a.i, b.i FROM a JOIN b USING (v)",
        "SELECT a.i, b.i FROM a, b WHERE a.v = b.v",
        "SELECT a.i, b.i FROM a, b WHERE a.v >= b.v AND a.v <= b.v",
        "SELECT a.i, b.i FROM a JOIN b ON a.v = b.v AND a.i >= 0 AND b.i + a.i >= 0",
        "SELECT a.i, b.i FROM a, LATERAL (SELECT i FROM b WHERE b.v = a.v) b",
    ):
        assert values.rows(text) == matches, text
    left = {i for i, _ in matches}
    expected = sorted([*matches, *((i, None) for i in range(len(values.a)) if i not in left)], key=str)
    assert values.rows("SELECT a.i, b.i FROM a LEFT JOIN b ON a.v = b.v") == expected
    nulls = [(values.a.index(None), values.b.index(None))]
    assert values.rows("SELECT a.i, b.i FROM a JOIN b ON a.v IS NOT DISTINCT FROM b.v") == sorted(matches + nulls, key=str)
    smaller = sorted(
        ((i, j) for (i, x), (j, y) in product(enumerate(values.a), enumerate(values.b)) if order(x, y) == -1), key=str
    )
    assert values.rows("SELECT a.i, b.i FROM a JOIN b ON a.v < b.v") == smaller
    asof = []
    for i, x in enumerate(values.a):
        below = [y for y in values.b if (order(x, y) or 0) >= 0 and order(x, y) is not None]
        if below:
            best = below[0]
            for y in below:
                best = y if order(y, best) == 1 else best
            asof.append((i, sum(1 for y in values.b if equal(y, best))))
    found = values.rows("SELECT a.i, b.v FROM a ASOF JOIN b ON a.v >= b.v")
    assert [i for i, _ in found] == [i for i, _ in sorted(asof, key=str)]
    semi = sorted(((i,) for i in left), key=str)
    for text in (
        "v IN (SELECT v FROM b)",
        "EXISTS (SELECT 1 FROM b WHERE b.v = a.v)",
        "v = ANY (SELECT v FROM b)",
        "v IN (SELECT v FROM b) OR i < 0",
    ):
        assert values.rows(f"SELECT i FROM a WHERE {text}") == semi, text
    anti = sorted(((i,) for i, x in enumerate(values.a) if i not in left and x is not None), key=str)
    for text in (
        "v NOT IN (SELECT v FROM b WHERE v IS NOT NULL)",
        "v <> ALL (SELECT v FROM b WHERE v IS NOT NULL)",
        "v IS NOT NULL AND NOT EXISTS (SELECT 1 FROM b WHERE b.v = a.v)",
    ):
        assert values.rows(f"SELECT i FROM a WHERE {text}") == anti, text
    assert values.rows("SELECT i FROM a WHERE v NOT IN (SELECT v FROM b)") == []


def test_constants_and_parameters_compare_as_columns_do(values: Values) -> None:
    kind = values.types[1]
    for y in values.b:
        constants: list[tuple[str, tuple[Any, ...]]] = [(literal(y, kind), ())]
        if kind != "REAL":
            constants.append(("?", (y,)))
        for text, given in constants:
            for name, holds in OPERATORS.items():
                expected = sorted(((i,) for i, x in enumerate(values.a) if (o := order(x, y)) is not None and holds(o)), key=str)
                assert values.rows(f"SELECT i FROM a WHERE v {name} {text}", *given) == expected, (name, y)
                turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(name, name)
                assert values.rows(f"SELECT i FROM a WHERE {text} {turned} v", *given) == expected, (turned, y)
            expected = sorted(((i,) for i, x in enumerate(values.a) if equal(x, y)), key=str)
            long = ", ".join(str(1000 + n) for n in range(40))
            for condition in (
                f"v IN ({text})",
                f"v IN (1000, {text}, NULL)",
                f"v IN ({text}, {long})",
                f"v IN (1000.5, {text})",
                f"v IN (1e3, {text}, 1e4)",
                f"v BETWEEN {text} AND {text}",
                f"CASE v WHEN {text} THEN true WHEN 1000 THEN true END",
                f"v = ANY([{text}])",
                f"list_contains([{text}], v)",
                f"v = (SELECT {text})",
            ):
                parameters = given * condition.count("?")
                assert values.rows(f"SELECT i FROM a WHERE {condition}", *parameters) == expected, (condition, y)
            different = sorted(((i,) for i, x in enumerate(values.a) if equal(x, y) is False), key=str)
            assert values.rows(f"SELECT i FROM a WHERE v NOT IN ({text}, {long})", *given) == different, y
            assert values.rows(f"SELECT i FROM a WHERE v IS NOT NULL AND v IS DISTINCT FROM {text}", *given) == (
                different if y is not None else sorted(((i,) for i, x in enumerate(values.a) if x is not None), key=str)
            )


def test_greatest_least_and_sets_go_by_the_same_order(values: Values) -> None:
    found = values.con.execute("SELECT x, y, greatest(x, y), least(x, y) FROM p ORDER BY i").fetchall()
    for x, y, most, least in found:
        if x is not None and y is not None:
            wide, narrow = (x, y) if order(x, y) == 1 else (y, x)
            # A REAL and a BIGINT meet in a REAL, as in PostgreSQL and DuckDB.
            result = real if "BIGINT" in values.types and "REAL" in values.types else float
            assert equal(float(most), result(wide)) and equal(float(least), result(narrow)), (x, y, most, least)
    if "DOUBLE" in values.types:
        doubles = (
            Counter(identity(None if v is None else float(v)) for v in values.a),
            Counter(identity(None if v is None else float(v)) for v in values.b),
        )
        for text, rows in (("INTERSECT ALL", doubles[0] & doubles[1]), ("EXCEPT ALL", doubles[0] - doubles[1])):
            found = values.con.execute(f"SELECT v FROM a {text} SELECT v FROM b").fetchall()
            assert Counter(identity(v) for (v,) in found) == rows, text
    merged = values.con.execute("SELECT v FROM a UNION SELECT v FROM b").fetchall()
    as_doubles = {identity(None if v is None else float(v)) for v in values.a + values.b}
    if {*values.types} & {"DOUBLE"} or any(kind.startswith("DECIMAL") for kind in values.types):
        assert Counter(identity(None if v is None else float(v)) for (v,) in merged) == Counter(as_doubles)
        shared = values.con.execute("SELECT v FROM a INTERSECT SELECT v FROM b").fetchall()
        both = {identity(None if v is None else float(v)) for v in values.a} & {
            identity(None if v is None else float(v)) for v in values.b
        }
        assert Counter(identity(None if v is None else float(v)) for (v,) in shared) == Counter(both)
        rest = values.con.execute("SELECT v FROM a EXCEPT SELECT v FROM b").fetchall()
        only = {identity(None if v is None else float(v)) for v in values.a} - both
        assert Counter(identity(None if v is None else float(v)) for (v,) in rest) == Counter(only)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("kind", ["DOUBLE", "REAL"])
def test_equal_values_are_one_key(kind: str, storage: str) -> None:
    made = Values(kind, kind, storage)
    con, numbers = made.con, made.a
    counts = Counter(identity(value) for value in numbers)
    expected = sorted(counts.values())
    for text in (
        "SELECT count(*) FROM a GROUP BY v",
        "SELECT count(*) FROM a GROUP BY v, v IS NULL",
        "SELECT count(*) FROM a GROUP BY [v]",
        "SELECT count(*) FROM a GROUP BY {'k': v}",
        "SELECT count(*) FROM a GROUP BY ROLLUP (v) HAVING grouping(v) = 0",
        "SELECT count(*) OVER (PARTITION BY v) FROM a QUALIFY row_number() OVER (PARTITION BY v ORDER BY i) = 1",
    ):
        assert sorted(n for (n,) in con.execute(text).fetchall()) == expected, text
    for text, count in (
        ("SELECT count(*) FROM (SELECT DISTINCT v FROM a)", len(counts)),
        ("SELECT count(*) FROM (SELECT DISTINCT [v] FROM a)", len(counts)),
        ("SELECT count(DISTINCT v) FROM a", len(counts) - 1),
        ("SELECT count(DISTINCT v) FILTER (WHERE true) FROM a", len(counts) - 1),
        ("SELECT len(list_distinct(list(v) FILTER (WHERE v IS NOT NULL))) FROM a", len(counts) - 1),
        ("SELECT len(map_keys(histogram(v))) FROM a", len(counts) - 1),
        ("SELECT count(*) FROM (SELECT v FROM a UNION SELECT v FROM a)", len(counts)),
        ("SELECT count(*) FROM (SELECT v FROM a INTERSECT SELECT v FROM a)", len(counts)),
        ("SELECT count(*) FROM (SELECT v FROM a EXCEPT SELECT v FROM a)", 0),
        ("SELECT max(r) FROM (SELECT dense_rank() OVER (ORDER BY v) AS r FROM a)", len(counts)),
    ):
        assert con.execute(text).fetchone() == (count,), text
    known = [value for value in numbers if value is not None]
    ranked = [value for (value,) in con.execute("SELECT v FROM a WHERE v IS NOT NULL ORDER BY v").fetchall()]
    assert all(order(one, next_one) <= 0 for one, next_one in pairwise(ranked))
    assert len(ranked) == len(known)
    assert con.execute("SELECT isnan(max(v)), min(v) FROM a").fetchone() == (True, -INF)
    assert con.execute("SELECT isnan(max(v)), min(v) FROM a WHERE i >= 0").fetchone() == (True, -INF)
    for place, value in enumerate(numbers):
        row = con.execute(
            f"SELECT v, -v, -(-v), abs(v), -v = -(-(-v)), -v IN (-v), max(v) OVER () FROM a WHERE i = {place}"
        ).fetchone()
        if value is not None:
            assert equal(row[0], value) and equal(row[1], -value) and equal(row[2], value) and equal(row[3], abs(value)), value
            assert math.copysign(1, row[1]) == -math.copysign(1, value) or math.isnan(value)
            assert row[4:6] == (True, True)
    nan_rows = sorted((i,) for i, value in enumerate(numbers) if value is not None and math.isnan(value))
    for text in (
        "-v = 'nan'",
        "v + 'inf'::DOUBLE - 'inf'::DOUBLE = 'nan' AND isnan(v)",
        f"-v = 'nan'::{kind}",
        "v > 'inf'",
        "NOT v <= 'inf'",
    ):
        assert sorted(con.execute(f"SELECT i FROM a WHERE {text}").fetchall()) == nan_rows, text


@pytest.mark.parametrize("kind", ["DOUBLE", "REAL"])
def test_a_unique_key_holds_one_zero_and_one_nan(kind: str) -> None:
    con = firndb.connect()
    con.execute(f"CREATE TABLE k (v {kind} PRIMARY KEY, n INTEGER)")
    con.execute("INSERT INTO k VALUES (?, 1), (?, 2), (1, 3)", (-0.0, NEGATIVE_NAN))
    for again in (0.0, -0.0, math.nan, NEGATIVE_NAN, ODD_NAN, 1.0):
        with pytest.raises(firndb.IntegrityError):
            con.execute("INSERT INTO k VALUES (?, 9)", (again,))
        with pytest.raises(firndb.IntegrityError):
            con.executemany("INSERT INTO k VALUES (?, ?)", [(again, 9)])
        con.execute("INSERT INTO k VALUES (?, 9) ON CONFLICT (v) DO NOTHING", (again,))
        number = 1 if again == 0 else 2 if math.isnan(again) else 3
        assert con.execute("SELECT n FROM k WHERE v = ?", (again,)).fetchall() == [(number,)]
        assert con.execute("SELECT n FROM k WHERE v IN (?, 77)", (again,)).fetchall() == [(number,)]
        assert con.execute("UPDATE k SET n = n WHERE v = ?", (again,)).rowcount == 1
    con.execute(f"CREATE TABLE child (v {kind} REFERENCES k (v))")
    con.executemany("INSERT INTO child VALUES (?)", [(0.0,), (-0.0,), (math.nan,), (ODD_NAN,)])
    assert con.execute("SELECT k.n, count(*) FROM k JOIN child USING (v) GROUP BY ALL ORDER BY 1").fetchall() == [(1, 2), (2, 2)]
    assert con.execute("DELETE FROM k WHERE v = 1").rowcount == 1
    for kept in (0.0, math.nan):
        with pytest.raises(firndb.IntegrityError):
            con.execute("DELETE FROM k WHERE v = ?", (kept,))
    con.close()


@pytest.mark.parametrize("source", ["arrow", "parquet", "append", "many", "parameters", "nested"])
def test_every_nan_that_comes_in_is_the_one(source: str, tmp_path: Any) -> None:
    numbers = [1.0, math.nan, NEGATIVE_NAN, ODD_NAN, 0.0, -0.0, -INF]
    con = firndb.connect()
    frame = pa.table({"i": pa.array(range(len(numbers)), pa.int32()), "v": pa.array(numbers, pa.float64())})
    table = "t"
    if source == "arrow":
        table = "frame"
    elif source == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(frame, tmp_path / "t.parquet", row_group_size=3)
        table = f"read_parquet('{tmp_path / 't.parquet'}')"
    elif source == "nested":
        lists = pa.ListArray.from_arrays(pa.array(range(len(numbers) + 1), pa.int32()), frame["v"].combine_chunks())
        nested = pa.table({"i": frame["i"], "l": lists})
        con.execute("CREATE TABLE n (i INTEGER, l DOUBLE[])")
        con.append("n", nested)
        con.execute("CREATE TABLE t AS SELECT i, l[1] AS v FROM n")
        assert con.execute("SELECT count(*) FROM n WHERE l = ['nan'::DOUBLE]").fetchone() == (3,)
        assert con.execute("SELECT count(*) FROM n WHERE l = [0.0::DOUBLE]").fetchone() == (2,)
        assert con.execute("SELECT count(*) FROM nested WHERE l > ['inf'::DOUBLE]").fetchone() == (3,)
        assert con.execute("SELECT count(*) FROM n JOIN nested ON n.l = nested.l").fetchone() == (1 + 9 + 4 + 1,)
    else:
        con.execute("CREATE TABLE t (i INTEGER, v DOUBLE)")
        if source == "append":
            con.append("t", frame)
        elif source == "many":
            con.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(numbers)))
        else:
            for row in enumerate(numbers):
                con.execute("INSERT INTO t SELECT ?, ?", row)

    def one(condition: str) -> list[int]:
        assert frame.num_rows == len(numbers)  # The query reads it by its name.
        return sorted(i for (i,) in con.execute(f"SELECT i FROM {table} WHERE {condition}").fetchall())

    for text in (
        "v = 'nan'",
        "v > 'inf'",
        "v >= 'nan'::DOUBLE",
        "NOT v < 'nan'::DOUBLE",
        "v IN ('nan', 7)",
        "v > 5",
        "v BETWEEN 5 AND 'nan'",
        "-v = 'nan'",
    ):
        assert one(text) == [1, 2, 3], text
    for text in ("v <> 'nan'", "v < 'nan'", "v NOT IN ('nan', 7)", "v <= 5"):
        assert one(text) == [0, 4, 5, 6], text
    assert one("v = 0") == one("v IN (-0.0, 7)") == one("v = 0.00") == [4, 5]
    assert one("v < -1e308") == [6]
    assert con.execute(f"SELECT count(DISTINCT v), isnan(max(v)), min(v) FROM {table}").fetchone() == (4, True, -INF)
    assert con.execute(f"SELECT count(*) FROM {table} x JOIN {table} y ON x.v = y.v").fetchone() == (1 + 9 + 4 + 1,)
    con.close()


@pytest.mark.parametrize(
    "expression",
    ["sin(x)", "ln(-abs(x)) ", "x - x", "x % 1", "x * 0", "acos(x)", "-(x - x)", "abs(-(x - x))", "power(-x, 0.5)", "tan(x)"],
)
def test_every_nan_that_is_computed_is_the_one(expression: str) -> None:
    con = firndb.connect()
    con.execute("CREATE TABLE t (x DOUBLE); INSERT INTO t VALUES ('inf')")
    try:
        value = con.execute(f"SELECT {expression} FROM t").fetchone()[0]
    except firndb.DataError:
        return
    con.execute(f"CREATE TABLE s AS SELECT {expression} AS v FROM t")
    if math.isnan(value):
        for text in (
            f"SELECT {expression} = 'nan', {expression} > 'inf', {expression} IN ('nan', 1) FROM t",
            "SELECT v = 'nan', v > 'inf', v IN ('nan', 1) FROM s",
        ):
            assert con.execute(text).fetchone() == (True, True, True)
    con.close()


@pytest.mark.parametrize(
    "aggregate",
    [
        "sum",
        "avg",
        "stddev",
        "var_pop",
        "stddev_pop",
        "product",
        "geomean",
        "skewness",
        "kurtosis",
        "median",
        "max",
        "mode",
        "entropy",
        "corr",
        "covar_pop",
        "regr_slope",
    ],
)
def test_every_nan_of_an_aggregate_is_the_one(aggregate: str) -> None:
    con = firndb.connect()
    con.execute("CREATE TABLE t (g INTEGER, x DOUBLE); INSERT INTO t VALUES (1, 'inf'), (1, '-inf'), (1, 0), (1, 'nan'), (1, 2)")
    call = f"{aggregate}(x, x * 2)" if aggregate in ("corr", "covar_pop", "regr_slope") else f"{aggregate}(x)"
    for condition in ("true", "NOT isnan(x)", "isinf(x)", "x = 'inf'"):
        for sql in (
            f"SELECT {call} AS v FROM t WHERE {condition}",
            f"SELECT {call} AS v FROM t WHERE {condition} GROUP BY g",
            f"SELECT DISTINCT {call} OVER () AS v FROM t WHERE {condition}",
        ):
            try:
                value = con.execute(sql).fetchone()[0]
            except (firndb.DataError, firndb.ProgrammingError):
                continue
            if value is not None and math.isnan(value):
                assert con.execute(f"SELECT v = 'nan', v > 'inf', v IN ('nan', 1) FROM ({sql})").fetchone() == (
                    True,
                    True,
                    True,
                ), sql
                con.execute(f"CREATE OR REPLACE TABLE s AS {sql}")
                assert con.execute("SELECT v = 'nan', v > 'inf', v IN ('nan', 1) FROM s").fetchone() == (True, True, True), sql
    con.close()
