"""What no program should do: each is an exception of PEP 249 with a SQLSTATE, and the connection goes on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import firndb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

Use = Callable[[firndb.Connection], Any]


def invalid_utf8(kind: pa.DataType) -> pa.Array:
    """A column of text that is none, as a faulty producer makes it."""
    values = pa.array([b"valid", b"\xff\xfe but too long to lie in a view", b"\xc3\x28"], pa.binary())
    if kind == pa.string_view():
        views = values.cast(pa.binary_view())
        return pa.Array.from_buffers(kind, 3, views.buffers())
    if kind == pa.large_string():
        values = values.cast(pa.large_binary())
    return pa.Array.from_buffers(kind, 3, values.buffers())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize(
    "nest",
    [
        lambda column: column,
        lambda column: pa.ListArray.from_arrays([0, 1, 3], column),
        lambda column: pa.StructArray.from_arrays([column], ["s"]),
        lambda column: pa.DictionaryArray.from_arrays([2, 1], column) if column.type != pa.string_view() else column,
    ],
    ids=["plain", "list", "struct", "dictionary"],
)
def test_text_that_is_no_utf8_stays_outside(con: firndb.Connection, kind: pa.DataType, nest: Callable[[Any], Any]) -> None:
    frame = pa.table({"v": nest(invalid_utf8(kind))})
    con.execute("CREATE TABLE t (v VARCHAR)")
    for use in (
        lambda: con.append("t", frame),
        lambda: con.append("new", frame, create=True),
        lambda: con.register("view", frame).execute("SELECT * FROM view").fetchall(),
        lambda: con.table("view").fetchnumpy()["v"],
        lambda: con.table("view").arrow(),
        lambda: con.execute("SELECT v FROM view").fetchone(),
        lambda: con.sql("SELECT * FROM frame").fetchall(),
        lambda: con.execute("CREATE TABLE made AS SELECT * FROM frame"),
    ):
        with pytest.raises(firndb.Error) as raised:
            use()
        assert raised.value.sqlstate is not None
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {LONG}",
        f'SELECT "{LONG}"',
        f"SELECT * FROM {LONG}",
        f"SELECT {LONG}(1)",
        f"SELECT 1{'0' * 1_000_000}",
        f"SELECT {'-' * 0}{'(' * 100_000}1{')' * 100_000}",
        f"SELECT {'NOT ' * 100_000}TRUE",
        f"SELECT {'- ' * 100_000}1",
        f"SELECT {'CASE WHEN TRUE THEN ' * 20_000}1{' END' * 20_000}",
        f"SELECT {'[' * 100_000}1{']' * 100_000}",
        f"SELECT * FROM {'(SELECT * FROM ' * 20_000}t{') AS x' * 20_000}",
        "SELECT '",
        'SELECT "',
        "SELECT $$",
        "SELECT /*" * 10_000,
        "$a$ " + "$b$".join(f"${i}x$" for i in range(100_000)),
        "SELECT $999999999999999999999",
        "SELECT ?" + "?" * 1000,
        "\0",
        "SELECT 1\0",
        "SELECT E'\\xff'",
        "SELECT U&'\\D800'",
        ";;;;SELECT nothing",
    ],
    ids=lambda sql: repr(sql[:20]),
)
def test_statements_that_are_none(con: firndb.Connection, sql: str) -> None:
    for use in (lambda: con.execute(sql).fetchall(), lambda: con.sql(sql).fetchall(), lambda: con.executemany(sql, [[]])):
        with pytest.raises(firndb.Error) as raised:
            use()
        assert raised.value.sqlstate is not None
        assert not isinstance(raised.value, firndb.InternalError), raised.value
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_long_literals_are_values(con: firndb.Connection) -> None:
    assert con.execute(f"SELECT length('{LONG}')").fetchone() == (1_000_000,)
    assert con.execute("SELECT ?", [LONG]).fetchone() == (LONG,)


class Odd:
    """Raises wherever it is touched."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("touched")


WRONG: list[Any] = [
    None,
    1,
    1.5,
    b"t",
    ["t"],
    {"t": 1},
    object(),
    "\ud800",
    "",
    "a" * 100_000,
    '"',
    "a.b.c.d",
    "t\0",
    int,
    np.arange(3),
]
NOT_TEXT = [value for value in WRONG if not isinstance(value, str)]


@pytest.mark.parametrize("value", NOT_TEXT, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize(
    "use",
    [
        lambda con, value: con.execute(value),
        lambda con, value: con.executemany(value, [[1]]),
        lambda con, value: con.sql(value),
        lambda con, value: con.table(value),
        lambda con, value: con.append(value, {"i": [1]}),
        lambda con, value: con.append(value, {"i": [1]}, create=True),
        lambda con, value: con.register(value, {"i": [1]}),
        lambda con, value: con.unregister(value),
        lambda con, value: con.begin(value) if value is not None else con.table(value),
        lambda con, value: con.transaction(value).__enter__() if value is not None else con.table(value),
    ],
)
def test_names_and_statements_of_wrong_types(con: firndb.Connection, use: Callable[[Any, Any], Any], value: object) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        use(con, value)
    assert raised.value.sqlstate == "22023"
    assert not con.in_transaction


@pytest.mark.parametrize("name", [value for value in WRONG if isinstance(value, str)], ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize(
    "use",
    [
        lambda con, name: con.execute(name).fetchall() if name else con.table(name),
        lambda con, name: con.table(name).fetchall(),
        lambda con, name: con.append(name, {"i": [1]}),
        lambda con, name: con.begin(name),
    ],
)
def test_names_of_nothing(con: firndb.Connection, use: Callable[[Any, Any], Any], name: str) -> None:
    with pytest.raises(firndb.Error) as raised:
        use(con, name)
    assert raised.value.sqlstate is not None
    assert not isinstance(raised.value, firndb.InternalError), raised.value


@pytest.mark.parametrize(
    "parameters",
    [1, "text", b"bytes", object(), {1: 2}, {1, 2}, [object()], [Odd], np.array(5), np.ma.masked, [[1, "x"]], [b"", 1j]],
)
def test_parameters_of_wrong_types(con: firndb.Connection, parameters: Any) -> None:
    for use in (
        lambda: con.execute("SELECT ?", parameters),
        lambda: con.sql("SELECT ?", parameters),
        lambda: con.executemany("SELECT ?", [parameters]),
        lambda: con.executemany("SELECT ?", parameters),
    ):
        with pytest.raises(firndb.Error) as raised:
            use()
        assert raised.value.sqlstate is not None


def test_exceptions_of_the_callers_objects_are_passed_on(con: firndb.Connection) -> None:
    def rows() -> Any:
        yield [1]
        raise RuntimeError("broken")

    con.execute("CREATE TABLE t (i INTEGER)")
    with pytest.raises(RuntimeError, match="broken"):
        con.executemany("INSERT INTO t VALUES (?)", rows())
    with pytest.raises(RuntimeError, match="broken"), con.transaction():
        con.execute("INSERT INTO t VALUES (1)")
        raise RuntimeError("broken")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize("frame", [None, 1, "t", b"t", object(), Odd, [], [1], {"a": 1}, {"a": object()}, {1: [1]}, np.arange(3)])
def test_what_is_no_frame(con: firndb.Connection, frame: Any) -> None:
    for use in (lambda: con.append("t", frame, create=True), lambda: con.register("v", frame)):
        with pytest.raises(firndb.Error) as raised:
            use()
        assert raised.value.sqlstate is not None
    assert con.execute("SELECT 1").fetchall() == [(1,)]


class Stream:
    """An object whose Arrow stream is what it is given."""

    def __init__(self, stream: object) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if isinstance(self.stream, Exception):
            raise self.stream
        return self.stream


def capsule(name: bytes) -> object:
    """A capsule of nothing that its name tells."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(MEMORY), name, None)


MEMORY = ctypes.create_string_buffer(256)


@pytest.mark.parametrize(
    "stream", [None, 1, "x", capsule(b"other"), capsule(b"arrow_schema")], ids=lambda stream: repr(stream)[:20]
)
def test_arrow_streams_that_are_none(con: firndb.Connection, stream: object) -> None:
    for use in (lambda: con.append("t", Stream(stream), create=True), lambda: con.register("v", Stream(stream))):
        with pytest.raises((firndb.Error, TypeError, ValueError)):
            use()


def test_arrow_streams_that_fail(con: firndb.Connection) -> None:
    with pytest.raises((firndb.Error, KeyError)):
        con.append("t", Stream(KeyError("broken")), create=True)
    frame = Stream(KeyError("broken"))
    with pytest.raises(firndb.Error, match="broken") as raised:
        con.sql("SELECT * FROM frame")
    assert raised.value.sqlstate is not None and frame.stream is not None


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (1, {}),
        (None, {}),
        ("", {}),
        (b"", {}),
        ("a\0b", {}),
        ("\ud800", {}),
        (":memory:", {"config": 1}),
        (":memory:", {"config": [1]}),
        (":memory:", {"config": {1: 2}}),
        (":memory:", {"config": {"threads": "many"}}),
        (":memory:", {"config": {"threads": 2**70}}),
        (":memory:", {"config": {"threads": -1}}),
        (":memory:", {"config": {"memory_limit": "lots"}}),
        (":memory:", {"config": {"memory_limit": 2**70}}),
        (":memory:", {"config": {"temp_directory": "a\0b"}}),
    ],
)
def test_databases_that_can_not_be_opened(path: Any, options: dict[str, Any]) -> None:
    with pytest.raises(firndb.Error) as raised:
        firndb.connect(path, **options)
    assert raised.value.sqlstate is not None


def test_pandas_frames_that_are_no_tables(con: firndb.Connection) -> None:
    doubled = pd.DataFrame([[1, 2]], columns=["a", "a"])
    frames: list[Any] = [doubled, pd.DataFrame({"a": [object()]}), pd.Series([1j])]
    for frame, state in zip(frames, ("42701", "22023", "22023"), strict=True):
        with pytest.raises(firndb.ProgrammingError) as raised:
            con.append("t", frame, create=True)
        assert raised.value.sqlstate == state
        with pytest.raises(firndb.ProgrammingError) as raised:
            con.execute("SELECT * FROM frame")
        assert raised.value.sqlstate == state
    for options in ({"by_name": doubled}, {"create": 1}):
        with pytest.raises(firndb.ProgrammingError, match="must be a bool"):
            con.append("t", {"a": [1]}, **options)


def test_unknown_time_zones_of_frames(con: firndb.Connection) -> None:
    frame = pa.table({"t": pa.array([1], pa.timestamp("s", "Nowhere/None"))})
    with pytest.raises(firndb.Error) as raised:
        con.sql("SELECT * FROM frame").fetchall()
    assert raised.value.sqlstate is not None and len(frame) == 1


def test_more_text_than_a_batch_can_hold_is_a_limit(con: firndb.Connection) -> None:
    for sql in (
        "SELECT sum(length(repeat('x', 1000000) || i)) FROM range(100000) r(i)",
        "SELECT repeat('x', 1000000) || i FROM t",
    ):
        con.execute("CREATE OR REPLACE TABLE t AS SELECT range AS i FROM range(100000)")
        with pytest.raises(firndb.OperationalError, match="2 GiB") as raised:
            con.execute(sql).fetchall()
        assert raised.value.sqlstate == "54000"
