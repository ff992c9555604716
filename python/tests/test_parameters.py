"""Python objects as parameters, and back."""

from __future__ import annotations

import array
import datetime as dt
import math
import uuid
from decimal import Decimal

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

ROUND_TRIPS = [
    ("BOOLEAN", True),
    ("BOOLEAN", False),
    ("TINYINT", -128),
    ("SMALLINT", 32767),
    ("INTEGER", -(2**31)),
    ("BIGINT", 2**63 - 1),
    ("BIGINT", -(2**63)),
    ("DECIMAL(38,0)", Decimal(10**38 - 1)),
    ("DECIMAL(10,2)", Decimal("-12345678.90")),
    ("DECIMAL(38,20)", Decimal("123456789012345678.12345678901234567890")),
    ("DOUBLE", 0.1),
    ("DOUBLE", math.inf),
    ("DOUBLE", -0.0),
    ("REAL", 0.5),
    ("VARCHAR", ""),
    ("VARCHAR", "größer 💫\0end"),
    ("BLOB", b"\x00\xff"),
    ("DATE", dt.date(1, 1, 1)),
    ("DATE", dt.date(9999, 12, 31)),
    ("TIME", dt.time(23, 59, 59, 999999)),
    ("TIMESTAMP", dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("INTERVAL", dt.timedelta(days=3, seconds=5, microseconds=7)),
    ("INTERVAL", dt.timedelta(days=-3, microseconds=1)),
    ("UUID", uuid.UUID("12345678-1234-5678-9abc-def012345678")),
]


@pytest.mark.parametrize(("kind", "value"), ROUND_TRIPS)
def test_values_come_back_as_they_went(con: firndb.Connection, kind: str, value: object) -> None:
    con.execute(f"CREATE TABLE t (v {kind})")
    con.execute("INSERT INTO t VALUES (?)", [value])
    con.execute("INSERT INTO t VALUES ($v)", {"v": None})
    rows = con.execute("SELECT v FROM t").fetchall()
    assert rows == [(value,), (None,)]
    assert type(rows[0][0]) is type(value)


def test_aware_datetimes_keep_their_instant(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (v TIMESTAMP WITH TIME ZONE)")
    instant = dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    con.execute("INSERT INTO t VALUES (?)", [instant])
    (value,) = con.execute("SELECT v FROM t").fetchone() or ()
    assert value == instant
    assert value.tzinfo is not None


def test_nan_comes_back(con: firndb.Connection) -> None:
    (value,) = con.execute("SELECT ?::DOUBLE", [math.nan]).fetchone() or ()
    assert math.isnan(value)


def test_positional_and_named_parameters(con: firndb.Connection) -> None:
    assert con.execute("SELECT ?::INTEGER + ?::INTEGER", [1, 2]).fetchone() == (3,)
    assert con.execute("SELECT $2::VARCHAR || $1::VARCHAR", ("a", "b")).fetchone() == ("ba",)
    assert con.execute("SELECT $x::INTEGER * $x::INTEGER", {"x": 4}).fetchone() == (16,)
    assert con.execute("SELECT $1::INTEGER", np.array([5])).fetchone() == (5,)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?::INTEGER", None),
        ("SELECT ?::INTEGER", []),
        ("SELECT ?::INTEGER, ?::INTEGER", [1]),
        ("SELECT $x::INTEGER", {"y": 1}),
    ],
)
def test_missing_parameters_are_undefined(con: firndb.Connection, sql: str, parameters: object) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.execute(sql, parameters)
    assert raised.value.sqlstate == "42P02"


def test_too_many_parameters_are_an_error(con: firndb.Connection) -> None:
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT ?::INTEGER", [1, 2])


@pytest.mark.parametrize("parameters", [1, "text", b"bytes", object(), {1, 2}])
def test_what_holds_no_parameters_is_refused(con: firndb.Connection, parameters: object) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.execute("SELECT ?::INTEGER", parameters)
    assert raised.value.sqlstate == "22023"


@pytest.mark.parametrize("value", [object(), {1}, 1j, dt.time(1, tzinfo=dt.timezone.utc), np.complex128(1), {}, [1, "a"]])
def test_what_is_no_value_is_refused(con: firndb.Connection, value: object) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.execute("SELECT ?", [value])
    assert raised.value.sqlstate == "22023"


def test_statements_must_be_text(con: firndb.Connection) -> None:
    with pytest.raises(firndb.ProgrammingError):
        con.execute(b"SELECT 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [10**38, -(10**40), Decimal("1e38"), Decimal("NaN"), Decimal("1e-39")])
def test_numbers_beyond_38_digits_are_out_of_range(con: firndb.Connection, value: object) -> None:
    with pytest.raises(firndb.DataError) as raised:
        con.execute("SELECT ?", [value])
    assert raised.value.sqlstate == "22003"


def test_integers_beyond_64_bits_are_decimals(con: firndb.Connection) -> None:
    assert con.execute("SELECT ?", [2**63]).fetchone() == (Decimal(2**63),)


def test_a_number_beyond_its_column_is_out_of_range(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (v TINYINT)")
    with pytest.raises(firndb.DataError) as raised:
        con.execute("INSERT INTO t VALUES (?)", [300])
    assert raised.value.sqlstate == "22003"


def test_lone_surrogates_are_no_text(con: firndb.Connection) -> None:
    for run in (lambda: con.execute("SELECT ?", ["\ud800"]), lambda: con.execute("SELECT '\ud800'")):
        with pytest.raises(firndb.DataError) as raised:
            run()
        assert raised.value.sqlstate == "22021"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(-1), -1),
        (np.uint64(2**64 - 1), Decimal(2**64 - 1)),
        (np.float32(0.5), 0.5),
        (np.float64(0.25), 0.25),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        (np.bytes_(b"raw"), b"raw"),
        (np.datetime64("2024-02-29"), dt.date(2024, 2, 29)),
        (np.datetime64("2024-02-29T01:02:03.000004"), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
        (np.datetime64("2024-02-29T01:02:03.000004", "ns"), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
        (np.datetime64("NaT"), None),
        (np.timedelta64(90, "s"), dt.timedelta(seconds=90)),
        (pd.Timestamp("2024-02-29 01:02:03"), dt.datetime(2024, 2, 29, 1, 2, 3)),
        (pd.NaT, None),
        (pd.NA, None),
        (bytearray(b"raw"), b"raw"),
        (memoryview(b"raw"), b"raw"),
    ],
)
def test_scalars_of_libraries_count_as_pythons(con: firndb.Connection, value: object, expected: object) -> None:
    assert con.execute("SELECT ?", [value]).fetchone() == (expected,)


@pytest.mark.parametrize(
    "value",
    [[1, 2, None], [], ["a"], [[1], [], [2, 3]], [1.5, None], [dt.date(2024, 1, 1)], {"a": 1, "b": "x"}, [{"a": None}]],
)
def test_lists_and_dicts_are_nested_values(con: firndb.Connection, value: object) -> None:
    assert con.execute("SELECT ?", [value]).fetchone() == (value,)


def test_numbers_of_a_list_get_one_type(con: firndb.Connection) -> None:
    assert con.execute("SELECT ?", [[1, 2.5]]).fetchone() == ([1.0, 2.5],)
    assert con.execute("SELECT ?", [[1, Decimal("2.5")]]).fetchone() == ([Decimal("1.0"), Decimal("2.5")],)
    assert con.execute("SELECT ?", [np.array([1, 2])]).fetchone() == ([1, 2],)


def test_dates_beyond_python_are_errors_and_not_other_dates(con: firndb.Connection) -> None:
    con.execute("SELECT DATE '0001-01-01' - 1 AS d")
    with pytest.raises(firndb.DataError) as raised:
        con.fetchall()
    assert raised.value.sqlstate == "22008"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.50", "DECIMAL(3,2)"),
        ("-0.001", "DECIMAL(3,3)"),
        ("1E+3", "DECIMAL(4,0)"),
        ("1E-3", "DECIMAL(3,3)"),
        ("0", "DECIMAL(1,0)"),
        ("0E-100", "DECIMAL(37,37)"),
    ],
)
def test_decimals_keep_their_scale(con: firndb.Connection, text: str, kind: str) -> None:
    relation = con.sql("SELECT ? AS d", [Decimal(text)])
    assert relation.fetchall() == [(Decimal(text),)]
    assert relation.types == [kind]


@pytest.mark.parametrize("text", ["1E+38", "1E-39"])
def test_decimals_of_more_digits_are_out_of_range(con: firndb.Connection, text: str) -> None:
    with pytest.raises(firndb.DataError, match="38 digits") as raised:
        con.execute("SELECT ?", [Decimal(text)])
    assert raised.value.sqlstate == "22003"


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_decimals_are_finite(con: firndb.Connection, text: str) -> None:
    for use in (lambda: con.execute("SELECT ?", [Decimal(text)]), lambda: con.append("t", {"d": [Decimal(text)]}, create=True)):
        with pytest.raises(firndb.DataError, match=f"{text} is no value of a decimal, which is a finite number") as raised:
            use()
        assert raised.value.sqlstate == "22003"


@pytest.mark.parametrize("day", ["1970-01-01", "2024-02-29", "0001-01-01", "9999-12-31", "1900-03-01", "2000-02-29"])
def test_dates_are_the_days_that_sql_means(con: firndb.Connection, day: str) -> None:
    value = dt.date.fromisoformat(day)
    assert con.execute("SELECT CAST(? AS VARCHAR), DATE '" + day + "'", [value]).fetchone() == (day, value)


IDS = [uuid.UUID("12345678-1234-5678-9abc-def012345678"), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]


def test_uuids_stay_uuids(con: firndb.Connection) -> None:
    relation = con.sql("SELECT ? AS u, $2 AS v, CAST(? AS VARCHAR) AS s".replace("$2", "?"), [IDS[0], IDS[1], IDS[2]])
    assert relation.types[:2] == ["UUID", "UUID"]
    assert relation.fetchall() == [(IDS[0], IDS[1], str(IDS[2]))]
    assert con.execute("SELECT $u", {"u": IDS[0]}).fetchall() == [(IDS[0],)]
    assert con.execute("SELECT ?", [{"a": IDS[2]}]).fetchall() == [({"a": IDS[2]},)]
    con.execute("CREATE TABLE t (l UUID[])")
    con.execute("INSERT INTO t VALUES (?)", [[IDS[0], None, IDS[1]]])
    assert con.table("t").fetchall() == [([IDS[0], None, IDS[1]],)]


def test_uuids_meet_columns_of_uuids(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (u UUID PRIMARY KEY, n INTEGER)")
    con.executemany("INSERT INTO t VALUES (?, ?)", [(value, n) for n, value in enumerate(IDS)])
    assert con.execute("SELECT n FROM t WHERE u = ?", [IDS[1]]).fetchall() == [(1,)]
    assert con.execute("SELECT n FROM t WHERE u IN (?, ?) ORDER BY n", IDS[1:]).fetchall() == [(1,), (2,)]
    assert con.execute("SELECT n FROM t WHERE u > ? AND n + 0 < 5 ORDER BY n", [IDS[1]]).fetchall() == [(0,), (2,)]
    assert con.execute("SELECT u FROM t WHERE n = 0").fetchall() == [(IDS[0],)]


def test_frames_of_uuids_make_columns_of_uuids(con: firndb.Connection) -> None:
    con.append("t", {"u": [IDS[0], None, IDS[2]], "l": [[IDS[1]], [], None]}, create=True)
    assert con.table("t").types == ["UUID", "UUID[]"]
    assert con.table("t").fetchall() == [(IDS[0], [IDS[1]]), (None, []), (IDS[2], None)]
    con.append("t", {"u": IDS, "l": [None, None, [IDS[0]]]})
    assert con.execute("SELECT count(DISTINCT u) FROM t").fetchone() == (3,)


@pytest.mark.parametrize("deep", [61, 100_000])
def test_values_nest_only_so_deep(con: firndb.Connection, deep: int) -> None:
    value: object = 1
    for _ in range(deep):
        value = [value]
    for use in (
        lambda: con.execute("SELECT ?", [value]),
        lambda: con.executemany("SELECT ?", [[value]]),
        lambda: con.sql("SELECT $v", {"v": {"a": value}}),
        lambda: con.append("t", {"v": [value]}, create=True),
    ):
        with pytest.raises(firndb.OperationalError, match="deep") as raised:
            use()
        assert raised.value.sqlstate == "54000"
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(firndb.OperationalError):
        con.execute("SELECT ?", [cycle])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a"], ["b"]], dtype=object), [["a"], ["b"]]),
        (np.array(["2024-02-29"], dtype="M8[D]"), [dt.date(2024, 2, 29)]),
        (pd.Series([1, 2]), [1, 2]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pd.Categorical(["x", "y"]), ["x", "y"]),
        (pa.array([1, None]), [1, None]),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pa.scalar(5), 5),
        (pa.scalar(None), None),
        (pl.Series([1.5, None]), [1.5, None]),
        (range(3), [0, 1, 2]),
        (array.array("i", [1, 2]), [1, 2]),
        ([[1], [2.5], []], [[1.0], [2.5], []]),
    ],
)
def test_columns_of_libraries_are_lists(con: firndb.Connection, value: object, expected: object) -> None:
    assert con.execute("SELECT ?", [value]).fetchone() == (expected,)


@pytest.mark.parametrize("values", [pd.Series([1, 2]), pd.Index([1, 2]), pl.Series([1, 2]), pa.array([1, 2])])
def test_columns_of_libraries_are_parameters(con: firndb.Connection, values: object) -> None:
    assert con.execute("SELECT ? + ?", values).fetchone() == (3,)


def test_values_of_one_list_that_do_not_fit_are_named_by_their_sql_types(con: firndb.Connection) -> None:
    with pytest.raises(firndb.ProgrammingError, match="BIGINT, VARCHAR"):
        con.execute("SELECT ?", [[1, "a"]])
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT ?", [pd.DataFrame({"a": [1]})])
