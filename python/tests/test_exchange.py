"""Arrow, pandas, Polars and NumPy, both ways."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

EVERYTHING = {
    "b": ("BOOLEAN", [True, None, False]),
    "i8": ("TINYINT", [1, None, -1]),
    "i16": ("SMALLINT", [1, None, -1]),
    "i32": ("INTEGER", [1, None, -1]),
    "i64": ("BIGINT", [1, None, -1]),
    "f32": ("REAL", [0.5, None, -1.0]),
    "f64": ("DOUBLE", [0.1, None, -1.0]),
    "d18": ("DECIMAL(15,2)", [Decimal("1.50"), None, Decimal("-0.01")]),
    "d38": ("DECIMAL(38,10)", [Decimal("1.5000000000"), None, Decimal("-12345678901234567890.0000000001")]),
    "s": ("VARCHAR", ["", None, "a string longer than twelve bytes ü"]),
    "x": ("BLOB", [b"", None, b"\x00" * 20]),
    "d": ("DATE", [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)]),
    "t": ("TIME", [dt.time(1, 2, 3, 4), None, dt.time(23, 59, 59, 999999)]),
    "ts": ("TIMESTAMP", [dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, dt.datetime(1969, 12, 31, 23, 59, 59)]),
    "tz": (
        "TIMESTAMP WITH TIME ZONE",
        [dt.datetime(2024, 2, 29, 1, tzinfo=dt.timezone.utc), None, dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)],
    ),
    "iv": ("INTERVAL", [dt.timedelta(days=1, seconds=2), None, dt.timedelta(microseconds=-1)]),
    "u": ("UUID", [uuid.UUID(int=1), None, uuid.UUID(int=2**128 - 1)]),
    "l": ("INTEGER[]", [[1, None], None, []]),
    "st": ("STRUCT<a INTEGER, b VARCHAR>", [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
}


@pytest.fixture
def everything(con: firndb.Connection) -> firndb.Connection:
    con.execute(f"CREATE TABLE everything ({', '.join(f'{name} {kind}' for name, (kind, _) in EVERYTHING.items())})")
    rows = list(zip(*(values for _, values in EVERYTHING.values()), strict=True))
    con.executemany(f"INSERT INTO everything VALUES ({', '.join('?' * len(EVERYTHING))})", rows)
    return con


def bulk(con: firndb.Connection, rows: int = 300_000) -> firndb.Connection:
    """A table of whole frozen blocks."""
    i = np.arange(rows)
    table = pa.table(
        {
            "i": i,
            "f": i / 7,
            "s": pa.array([f"value {n % 1000} of a thousand" for n in range(rows)]),
            "d": pa.array(i, pa.int32()).cast(pa.decimal128(15, 2)),
            "n": pa.array(i, mask=i % 3 == 0),
        }
    )
    con.append("bulk", table, create=True)
    return con


def addresses(column: pa.ChunkedArray) -> list[int]:
    """Where the buffers of a column's frozen blocks lie: of all but the last, hot one, which is copied."""
    frozen = column.chunks[:-1]
    assert frozen
    return [buffer.address for chunk in frozen for buffer in chunk.buffers() if buffer is not None]


@pytest.mark.parametrize("name", EVERYTHING)
def test_rows_have_pythons_types(everything: firndb.Connection, name: str) -> None:
    assert [row[0] for row in everything.execute(f"SELECT {name} FROM everything").fetchall()] == EVERYTHING[name][1]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", EVERYTHING)
def test_arrow_out(everything: firndb.Connection, name: str, native: bool) -> None:
    table = everything.sql(f"SELECT {name} FROM everything").arrow(native=native)
    table.validate(full=True)
    if name == "iv":
        return
    assert table.column(0).to_pylist() == EVERYTHING[name][1]


def test_default_types_are_those_consumers_compute_with(everything: firndb.Connection) -> None:
    schema = everything.table("everything").arrow().schema
    assert schema.field("s").type == pa.string()
    assert schema.field("d18").type == pa.decimal128(15, 2)
    assert schema.field("u").type == pa.uuid()
    native = everything.table("everything").arrow(native=True).schema
    assert native.field("s").type == pa.string_view()
    assert native.field("d18").type == pa.decimal64(15, 2)


def test_arrow_round_trip(everything: firndb.Connection) -> None:
    table = everything.table("everything").arrow()
    everything.append("copy", table, create=True)
    assert everything.table("copy").arrow().equals(table)
    assert everything.table("copy").types == everything.table("everything").types


def test_arrow_out_of_frozen_blocks_is_a_view(con: firndb.Connection) -> None:
    bulk(con)
    first, second = con.table("bulk").arrow(), con.table("bulk").arrow()
    for name in ("i", "f", "s", "n"):
        assert addresses(first[name]) == addresses(second[name]), name
    first, second = con.table("bulk").arrow(native=True), con.table("bulk").arrow(native=True)
    for name in ("i", "f", "d", "n"):
        assert addresses(first[name]) == addresses(second[name]), name


def test_exports_stay_as_they_were(con: firndb.Connection) -> None:
    bulk(con, 100_000)
    table = con.table("bulk").arrow()
    con.execute("UPDATE bulk SET i = -i, s = 'changed'")
    con.execute("DELETE FROM bulk WHERE i < -50000")
    assert table["i"].to_pylist() == list(range(100_000))
    assert table["s"][5].as_py() == "value 5 of a thousand"
    con.close()
    assert table["i"][99_999].as_py() == 99_999


def test_requested_schemas_are_honoured(con: firndb.Connection) -> None:
    relation = con.sql("SELECT 1::INTEGER AS i, 'x' AS s, 1.5::DECIMAL(10,2) AS d")
    wanted = pa.schema([("i", pa.int64()), ("s", pa.string_view()), ("d", pa.decimal64(10, 2))])
    table = pa.table(relation, schema=wanted)
    assert table.schema.types == wanted.types
    assert table.to_pylist() == [{"i": 1, "s": "x", "d": Decimal("1.50")}]
    with pytest.raises(firndb.ProgrammingError):
        relation.__arrow_c_stream__(pa.schema([("other", pa.int64())]).__arrow_c_schema__())


def test_a_requested_type_that_does_not_fit_is_an_error(con: firndb.Connection) -> None:
    relation = con.sql("SELECT 300::INTEGER AS i")
    with pytest.raises((pa.ArrowInvalid, OSError, firndb.Error)):
        pa.table(relation, schema=pa.schema([("i", pa.int8())]))


def test_schemas_are_exported_without_running(con: firndb.Connection) -> None:
    relation = con.sql("SELECT 1 / 0 AS i, 'x' AS s")
    assert pa.schema(relation).names == ["i", "s"]


def test_relations_are_tables_to_arrow_consumers(con: firndb.Connection) -> None:
    relation = con.sql("SELECT range AS i FROM range(10) AS r(range)")
    assert pa.table(relation)["i"].to_pylist() == list(range(10))
    assert pl.DataFrame(relation)["i"].to_list() == list(range(10))
    assert pa.chunked_array(relation["i"]).to_pylist() == list(range(10))
    assert relation.__dataframe__().num_rows() == 10


def test_batches_are_streamed(con: firndb.Connection) -> None:
    relation = con.sql("SELECT range AS i FROM range(200000) AS r(range)")
    reader = relation.fetch_record_batch()
    first = reader.read_next_batch()
    assert first.num_rows < 200_000
    assert first.num_rows + reader.read_all().num_rows == 200_000
    assert len(relation) == 200_000
    assert con.execute("SELECT 1 AS one").fetch_record_batch().read_all().to_pydict() == {"one": [1]}


def test_an_error_in_a_stream_is_raised(con: firndb.Connection) -> None:
    reader = con.sql("SELECT 1 / (range - 150000) AS q FROM range(200000) AS r(range)").fetch_record_batch()
    with pytest.raises(firndb.DataError, match="division by zero"):
        reader.read_all()


def test_empty_results_have_columns(everything: firndb.Connection) -> None:
    relation = everything.sql("SELECT * FROM everything WHERE false")
    assert relation.arrow().num_rows == 0
    assert relation.arrow().column_names == list(EVERYTHING)
    assert relation.df().shape == (0, len(EVERYTHING))
    assert relation.pl().shape == (0, len(EVERYTHING))
    assert all(len(values) == 0 for values in relation.fetchnumpy().values())
    assert relation.fetchall() == []


def test_pandas_frames_are_arrow_backed(everything: firndb.Connection) -> None:
    frame = everything.sql("SELECT i32, d18, s, d, ts, b FROM everything").df()
    assert all(isinstance(kind, pd.ArrowDtype) for kind in frame.dtypes)
    assert frame["i32"].isna().tolist() == [False, True, False]
    assert frame["d18"].tolist()[0] == Decimal("1.50")


def test_classic_pandas_frames(everything: firndb.Connection) -> None:
    frame = everything.sql("SELECT i32, d18, s, d, ts, b, f64 FROM everything").df(dtypes="numpy")
    assert frame["i32"].dtype == np.float64
    assert frame["d18"].tolist()[0] == 1.5
    assert frame["s"].tolist()[0] == "" and frame["s"].isna()[1]
    assert frame["d"].dtype.kind == "M" and frame["ts"].dtype.kind == "M"
    assert frame["b"].dtype == object
    exact = everything.sql("SELECT d18 FROM everything").df(dtypes="numpy", decimals="object")
    assert exact["d18"].tolist()[2] == Decimal("-0.01")
    with pytest.raises(firndb.ProgrammingError):
        everything.sql("SELECT 1").df(dtypes="other")


def test_pandas_in_and_out(con: firndb.Connection) -> None:
    frame = pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [0.5, np.nan, 1.5],
            "s": ["a", None, "c"],
            "t": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "c": pd.Categorical(["x", "y", "x"]),
        },
        index=[7, 8, 9],
    )
    assert con.append("t", frame, create=True) == 3
    rows = con.execute("SELECT i, s, t, c FROM t ORDER BY i").fetchall()
    assert rows[0] == (1, "a", dt.datetime(2024, 1, 1), "x")
    assert rows[1][1] is None and rows[1][2] is None
    assert con.table("t").columns == ["i", "f", "s", "t", "c"]


def test_polars_in_and_out(con: firndb.Connection) -> None:
    frame = pl.DataFrame({"i": [1, None, 3], "s": ["a", None, "c"], "l": [[1], None, [2, 3]], "d": [dt.date(2024, 1, 1)] * 3})
    con.append("t", frame, create=True)
    assert con.table("t").pl().equals(frame)
    con.append("t", frame.lazy())
    assert len(con.table("t")) == 6


def test_numpy_arrays_have_the_columns_types(everything: firndb.Connection) -> None:
    arrays = everything.table("everything").fetchnumpy()
    kinds = {name: arrays[name].dtype.str.lstrip("<|=") for name in EVERYTHING}
    assert kinds == {
        "b": "b1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f32": "f4", "f64": "f8", "d18": "f8", "d38": "f8",
        "s": "O", "x": "O", "d": "M8[D]", "t": "O", "ts": "M8[us]", "tz": "M8[us]", "iv": "m8[us]", "u": "O", "l": "O", "st": "O",
    }  # fmt: skip
    for name, values in arrays.items():
        assert isinstance(values, np.ma.MaskedArray), name
        assert values.mask.tolist() == [False, True, False]
    assert arrays["d18"][0] == 1.5
    assert arrays["s"][2] == EVERYTHING["s"][1][2]
    assert arrays["ts"][0] == np.datetime64("2024-02-29T01:02:03.000004")
    assert arrays["iv"][2] == np.timedelta64(-1, "us")
    exact = everything.sql("SELECT d38 FROM everything").fetchnumpy(decimals="object")["d38"]
    assert exact[2] == EVERYTHING["d38"][1][2]


def test_numpy_arrays_without_nulls_are_plain(con: firndb.Connection) -> None:
    values = con.sql("SELECT range AS i FROM range(100000) AS r(range)").fetchnumpy()["i"]
    assert type(values) is np.ndarray and values.flags.writeable
    assert (values == np.arange(100000)).all()


def test_large_columns_are_joined_in_order(con: firndb.Connection) -> None:
    bulk(con)
    arrays = con.table("bulk").fetchnumpy()
    i = np.arange(300_000)
    assert (arrays["i"] == i).all() and (arrays["f"] == i / 7).all() and (arrays["d"] == i).all()
    assert arrays["n"].mask.tolist() == (i % 3 == 0).tolist()
    arrays["i"][:] = 0
    assert con.execute("SELECT max(i) FROM bulk").fetchone() == (299_999,)


def test_columns_of_one_name_stay_apart(con: firndb.Connection) -> None:
    relation = con.sql("SELECT * FROM (SELECT 1 AS a) AS x, (SELECT 2 AS a) AS y")
    assert {name: values.tolist() for name, values in relation.fetchnumpy().items()} == {"a": [1], "a_1": [2]}
    assert relation.arrow().column_names == ["a", "a"]
    assert relation.df().shape == (1, 2)


ARRAYS: dict[str, Any] = {
    "bool": np.array([True, False, True]),
    "int8": np.array([1, -2, 3], np.int8),
    "uint16": np.array([1, 2, 65535], np.uint16),
    "int64": np.array([1, -2, 3]),
    "float16": np.array([0.5, 1, 2], np.float16),
    "float32": np.array([0.5, 1, 2], np.float32),
    "big endian": np.array([1, 2, 3], ">i4"),
    "strided": np.arange(6)[::2],
    "reversed": np.arange(3)[::-1],
    "text": np.array(["a", "bc", ""]),
    "days": np.array(["2024-02-29", "1969-12-31", "1970-01-01"], "datetime64[D]"),
    "seconds": np.array(["2024-02-29T01:02:03", "1969-12-31T00:00:00", "1970-01-01T00:00:00"], "datetime64[s]"),
    "hours": np.array(["2024-02-29T01", "1969-12-31T00", "1970-01-01T00"], "datetime64[h]"),
    "spans": np.array([1, -2, 3], "timedelta64[m]"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_numpy_arrays_in(con: firndb.Connection, name: str) -> None:
    con.append("t", {"v": ARRAYS[name]}, create=True)
    values = [row[0] for row in con.execute("SELECT v FROM t").fetchall()]
    expected = ARRAYS[name]
    if expected.dtype.kind == "M" and name != "days":
        expected = expected.astype("datetime64[us]")
    if expected.dtype.kind == "m":
        expected = expected.astype("timedelta64[us]")
    assert values == expected.tolist()


def test_missing_values_in_numpy_arrays(con: firndb.Connection) -> None:
    columns = {
        "m": np.ma.MaskedArray([1, 2, 3], [False, True, False]),
        "t": np.array(["2024-01-01", "NaT", "2024-01-03"], "datetime64[ns]"),
        "o": np.array(["a", None, np.nan], object),
        "l": [1, None, 3],
    }
    con.append("t", columns, create=True)
    assert con.execute("SELECT * FROM t").fetchall() == [
        (1, dt.datetime(2024, 1, 1), "a", 1),
        (None, None, None, None),
        (3, dt.datetime(2024, 1, 3), None, 3),
    ]


def test_lists_of_dicts_in(con: firndb.Connection) -> None:
    con.append("t", [{"a": 1, "b": "x"}, {"b": "y", "c": Decimal("1.5")}], create=True)
    assert con.execute("SELECT a, b, c FROM t").fetchall() == [(1, "x", None), (None, "y", Decimal("1.5"))]


@pytest.mark.parametrize(
    "frame",
    [1, "text", [1, 2], np.arange(3), {"a": [1, 2], "b": [1]}, {"a": np.zeros((2, 2))}, {1: [1]}, {"a": [1, "x"]}, {"a": [1j]}],
)
def test_what_is_no_table_is_refused(con: firndb.Connection, frame: object) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.append("t", frame, create=True)
    assert raised.value.sqlstate == "22023"


def test_append_by_position_and_by_name(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, b VARCHAR DEFAULT 'none', c DOUBLE)")
    assert con.append("t", {"x": [1], "y": ["p"], "z": [0.5]}) == 1
    assert con.append("t", {"c": [1.5], "a": [2]}, by_name=True) == 1
    assert con.execute("SELECT * FROM t ORDER BY a").fetchall() == [(1, "p", 0.5), (2, "none", 1.5)]
    with pytest.raises(firndb.Error):
        con.append("t", {"nothing": [1]}, by_name=True)
    with pytest.raises(firndb.Error):
        con.append("t", {"a": [1], "b": ["x"]} | {"c": [1.0], "d": [1]})


def test_append_by_position_refuses_names_in_another_order(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    for frame in ({"b": [1], "a": [2]}, {"x": [1], "A": [2]}, pd.DataFrame({"b": [1], "a": [2]})):
        with pytest.raises(firndb.Error, match="is called") as raised:
            con.append("t", frame)
        assert raised.value.sqlstate == "42804"
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    con.append("t", {"b": [1], "a": [2]}, by_name=True)
    con.append("t", {"b": [1], "a": [2]}, by_name=False)
    con.append("t", {"A": [5], "y": [6]})
    assert con.execute("SELECT * FROM t").fetchall() == [(2, 1), (1, 2), (5, 6)]


def test_many_values_for_a_generated_column_are_refused(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE i (id INTEGER GENERATED ALWAYS AS IDENTITY, b INTEGER)")
    con.execute("CREATE TABLE g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a * 2))")
    for insert in ("INSERT INTO i (id, b) VALUES (?, ?)", "INSERT INTO g (a, b) VALUES (?, ?)"):
        with pytest.raises(firndb.Error) as raised:
            con.executemany(insert, [(5, 1), (6, 2)])
        assert raised.value.sqlstate == "428C9"
    con.executemany("INSERT INTO i (id, b) OVERRIDING SYSTEM VALUE VALUES (?, ?)", [(5, 1), (6, 2)])
    assert con.execute("SELECT * FROM i ORDER BY id").fetchall() == [(5, 1), (6, 2)]
    assert con.execute("SELECT changes(), total_changes()").fetchall() == [(2, 2)]


def test_append_is_all_or_nothing(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER NOT NULL)")
    with pytest.raises(firndb.IntegrityError):
        con.append("t", pa.table({"a": pa.array([*range(100_000), None], pa.int32())}))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(firndb.Error):
        con.append("missing", {"a": [1]})


def test_streams_are_appended_batch_by_batch(con: firndb.Connection) -> None:
    batches = (pa.record_batch({"i": np.arange(start, start + 1000)}) for start in range(0, 10_000, 1000))
    reader = pa.RecordBatchReader.from_batches(pa.schema([("i", pa.int64())]), batches)
    con.append("t", reader, create=True)
    assert con.execute("SELECT count(*), sum(i) FROM t").fetchone() == (10_000, 49_995_000)


def test_a_stream_that_fails_appends_nothing(con: firndb.Connection) -> None:
    def batches() -> Any:
        yield pa.record_batch({"i": [1]})
        raise ValueError("broken source")

    con.execute("CREATE TABLE t (i BIGINT)")
    with pytest.raises(firndb.Error, match="broken source"):
        con.append("t", pa.RecordBatchReader.from_batches(pa.schema([("i", pa.int64())]), batches()))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_relation_can_be_appended(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i BIGINT)")
    con.append("t", con.sql("SELECT range FROM range(10) AS r(range)"))
    con.append("t", con.table("t"))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (20,)


def test_classic_frames_keep_the_zone_of_instants(con: firndb.Connection) -> None:
    rows = con.sql(
        "SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00' AS a, TIMESTAMP '2024-07-01 12:00:00' AS b, NULL::TIMESTAMPTZ AS c"
    )
    frame = rows.df(dtypes="numpy")
    assert str(frame["a"].dt.tz) == rows.arrow().schema.field("a").type.tz
    assert frame["a"][0] == pd.Timestamp("2024-07-01 12:00", tz="UTC")
    assert frame["b"][0] == pd.Timestamp("2024-07-01 12:00")
    assert frame["c"].isna().all() and frame["c"].dt.tz is not None
    assert list(con.sql("SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00' AS a WHERE false").df(dtypes="numpy").columns) == ["a"]


def test_digits_of_timestamps(con: firndb.Connection) -> None:
    """Whichever way values come in, they have the digits of their column."""
    con.execute("CREATE TABLE t (s TIMESTAMP_S, ms TIMESTAMP(3), z TIMESTAMP(1) WITH TIME ZONE)")
    utc = dt.timezone.utc
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 987654)
    rounded = (dt.datetime(2024, 1, 1, 0, 0, 1), moment.replace(microsecond=988000), dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=utc))
    row = (moment, moment, moment.replace(tzinfo=utc))
    con.execute("INSERT INTO t VALUES (?, ?, ?)", row)
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", [row, row])
    given = pa.table({"s": [moment], "ms": [moment], "z": pa.array([row[2]], pa.timestamp("us", "UTC"))})
    con.append("t", given)
    con.execute("INSERT INTO t SELECT * FROM given")
    con.execute("CREATE TABLE key (id INTEGER PRIMARY KEY, s TIMESTAMP_S)")
    con.execute("INSERT INTO key VALUES (?, ?)", (1, moment))
    con.execute("UPDATE key SET s = ? WHERE id = ?", (moment, 1))
    assert con.execute("SELECT s FROM key WHERE id = 1").fetchall() == [rounded[:1]]
    rows = con.execute("SELECT * FROM t").fetchall()
    assert len(rows) == 5
    assert {tuple(row) for row in rows} == {rounded}
    con.execute("SELECT * FROM t")
    assert con.description is not None
    types = [column[1] for column in con.description]
    assert types == ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP(1) WITH TIME ZONE"]
    assert all(kind == firndb.DATETIME for kind in types)
    assert str(con.sql("SELECT z FROM t").df(dtypes="numpy").dtypes["z"]).endswith("UTC]")
