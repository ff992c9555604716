"""Columns as NumPy arrays, and what becomes of the memory that they show."""

from __future__ import annotations

import ctypes
import datetime as dt
import gc
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import firndb
import numpy as np
import pyarrow as pa
import pytest

ROWS = 1_000_000
I = np.arange(ROWS)  # noqa: E741
TYPES = {
    "i8": I.astype(np.int8),
    "u16": I.astype(np.uint16),
    "i32": I.astype(np.int32),
    "i64": I - 500_000,
    "f32": I.astype(np.float32),
    "f64": I / 7,
    "ts": (I * 1_000_003).astype("datetime64[us]"),
    "day": (I % 40_000).astype("datetime64[D]"),
    "flag": I % 3 == 0,
}


def loaded(rows: int = ROWS) -> firndb.Connection:
    """A table of frozen blocks, and some hot rows after them."""
    con = firndb.connect()
    con.append("t", {name: values[:rows] for name, values in TYPES.items()}, create=True)
    return con


def mappings() -> int:
    """Private mappings of frozen memory in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:firndb" in line and line.split()[1] == "rw-p" for line in lines)


def pss() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Pss")


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_many_extents_are_one_array(name: str) -> None:
    with loaded() as con:
        for values in (con.table("t")[name].to_numpy(), con.sql(f"SELECT {name} FROM t").fetchnumpy()[name]):
            assert values.dtype == TYPES[name].dtype
            assert values.flags.c_contiguous and values.flags.writeable and values.flags.aligned
            assert (values == TYPES[name]).all()


@pytest.mark.parametrize("rows", [0, 1, 4096, 131_072, 300_001])
def test_tables_of_any_length(rows: int) -> None:
    with loaded(rows) as con:
        con.execute("INSERT INTO t SELECT * FROM t LIMIT 3")
        for name, values in con.table("t").fetchnumpy().items():
            expected = np.concatenate([TYPES[name][:rows], TYPES[name][: min(rows, 3)]])
            assert values.tolist() == expected.tolist(), name


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is mapped on Linux")
def test_numbers_are_mapped_and_not_copied() -> None:
    with loaded() as con:
        relation = con.table("t")
        relation.arrow(native=True)
        sum(int(relation[name].to_numpy().view(np.uint8).sum()) for name in ("i64", "f64", "ts"))
        gc.collect()
        before, size = mappings(), pss()
        arrays = [relation[name].to_numpy() for name in ("i64", "f64", "ts")] * 3
        assert mappings() > before
        assert sum(array.nbytes for array in arrays) > 70_000_000
        # A copy of the columns would take 24 MB.
        assert pss() - size < 4_000_000
        del arrays
        gc.collect()
        assert mappings() == before


def test_writing_to_an_array_changes_only_the_array() -> None:
    with loaded() as con:
        table = con.table("t").arrow()
        arrays = con.table("t").fetchnumpy()
        for values in arrays.values():
            values.view(np.uint8)[:] = 0xAB
        again = con.table("t").fetchnumpy()
        for name, expected in TYPES.items():
            assert (again[name] == expected).all(), name
            if expected.dtype.kind in "iuf":
                assert (table[name].to_numpy() == expected).all(), name
        assert con.execute("SELECT sum(i64), min(ts), max(f64) FROM t").fetchone() == (
            int(TYPES["i64"].sum()),
            dt.datetime(1970, 1, 1),
            float(TYPES["f64"].max()),
        )
        assert (arrays["i64"] == np.int64(-0x5454545454545455)).all()


def test_arrays_outlive_what_they_show() -> None:
    con = loaded()
    arrays = con.table("t").fetchnumpy()
    con.execute("UPDATE t SET i64 = -i64, f64 = 0")
    con.execute("DELETE FROM t WHERE i32 % 2 = 0")
    con.execute("DROP TABLE t")
    # These would take the memory, were it free.
    for i in range(5):
        con.append(f"t{i}", {"x": np.full(ROWS, -1)}, create=True)
    assert all((arrays[name] == TYPES[name]).all() for name in TYPES)
    con.close()
    del con
    gc.collect()
    with loaded() as other:
        other.execute("UPDATE t SET i64 = 0")
        assert all((arrays[name] == TYPES[name]).all() for name in TYPES)


def test_rows_that_are_deleted_or_changed_are_left_out() -> None:
    with loaded() as con:
        con.execute("DELETE FROM t WHERE i32 BETWEEN 100 AND 199999")
        con.execute("UPDATE t SET f64 = -1 WHERE i32 = 500000")
        keep = (I < 100) | (I > 199_999)
        expected = TYPES["f64"].copy()
        expected[500_000] = -1
        arrays = con.table("t").fetchnumpy()
        order = np.argsort(arrays["i32"])
        assert (arrays["i32"][order] == I[keep]).all()
        assert (arrays["f64"][order] == expected[keep]).all()


def test_parts_of_a_table_are_arrays_too() -> None:
    with loaded() as con:
        for offset, limit in [(0, 200_000), (1, 500_000), (65_536, 131_072), (99_999, 700_001)]:
            values = con.sql(f"SELECT i64 FROM t LIMIT {limit} OFFSET {offset}").fetchnumpy()["i64"]
            assert (values == TYPES["i64"][offset : offset + limit]).all()


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "TIMESTAMP", "DATE", "BOOLEAN", "DECIMAL(15,2)", "VARCHAR"])
def test_nulls_are_masked(con: firndb.Connection, kind: str) -> None:
    column = "range % 50" if kind != "BOOLEAN" else "range % 2 = 0"
    source = f"TIMESTAMP '2024-01-01' + range * INTERVAL '1 second' AS {kind}" if kind in ("TIMESTAMP", "DATE") else None
    cast = f"CAST({source})" if source else f"CAST({column} AS {kind})"
    con.execute(f"CREATE TABLE t AS SELECT CASE WHEN range % 7 <> 0 THEN {cast} END AS v FROM range(300000) AS r(range)")
    values = con.table("t").fetchnumpy()["v"]
    missing = np.arange(300_000) % 7 == 0
    assert isinstance(values, np.ma.MaskedArray)
    assert (values.mask == missing).all()
    assert values.compressed().tolist() == [row[0] for row in con.execute("SELECT v FROM t WHERE v IS NOT NULL").fetchall()] or (
        kind == "DECIMAL(15,2)"
    )
    if kind in ("TIMESTAMP", "DATE"):
        assert np.isnat(values.data[missing]).all()


def test_decimals_are_the_nearest_doubles_or_exact(con: firndb.Connection) -> None:
    texts = ["0.10", "1234567890123456789012345.67", "-0.01", "90071992547409.93", "99999999999999999999999999999999.99"]
    con.execute(
        f"CREATE TABLE t AS SELECT v::DECIMAL(38,2) AS v FROM (VALUES {', '.join(f'({text})' for text in texts)}) AS x(v)"
    )
    assert con.table("t")["v"].to_numpy().tolist() == [float(text) for text in texts]
    assert con.table("t")["v"].to_numpy(decimals="object").tolist() == [Decimal(text) for text in texts]
    con.execute("CREATE TABLE narrow AS SELECT (v / 8)::DECIMAL(18,3) AS v FROM range(400000) AS r(v)")
    expected = [float(row[0]) for row in con.execute("SELECT v FROM narrow").fetchall()]
    assert con.table("narrow").fetchnumpy()["v"].tolist() == expected
    with pytest.raises(firndb.ProgrammingError, match="decimals"):
        con.table("t")["v"].to_numpy(decimals="other")


def test_objects_are_made_when_they_are_touched(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT range AS i, 'value ' || range AS s, [range] AS l FROM range(10) AS r(range)")
    arrays = con.table("t").fetchnumpy()
    assert list(arrays) == ["i", "s", "l"] and len(arrays) == 3 and "s" in arrays
    assert dict.__getitem__(arrays, "s") is None
    assert arrays["s"] is arrays["s"] and arrays["s"][3] == "value 3"
    assert dict.__getitem__(arrays, "l") is None
    con.execute("DROP TABLE t")
    for plain in (dict(arrays), {**arrays}, arrays.copy(), pickle.loads(pickle.dumps(arrays)), arrays | {}, {} | arrays):
        assert type(plain) is dict and list(plain) == ["i", "s", "l"]
        assert plain["l"].tolist() == [[n] for n in range(10)]


@pytest.mark.parametrize(
    "use",
    [
        lambda arrays: arrays.get("l"),
        lambda arrays: list(arrays.values())[1],
        lambda arrays: dict(arrays.items())["l"],
        lambda arrays: arrays.pop("l"),
        lambda arrays: arrays.popitem()[1],
        lambda arrays: arrays.setdefault("l"),
        lambda arrays: (lambda **columns: columns)(**arrays)["l"],
        lambda arrays: (arrays.update(x=np.arange(1)), arrays["l"])[1],
    ],
)
def test_every_way_into_the_dict_makes_arrays(con: firndb.Connection, use: Any) -> None:
    arrays = con.sql("SELECT 1 AS i, [2, 3] AS l").fetchnumpy()
    assert use(arrays).tolist() == [[2, 3]]
    assert "None" not in repr(arrays)


def test_arrays_can_be_replaced_in_the_dict(con: firndb.Connection) -> None:
    arrays = con.sql("SELECT 1 AS i, 'x' AS s").fetchnumpy()
    arrays["s"] = np.arange(1)
    assert arrays["s"].tolist() == [0]
    del arrays["i"]
    assert list(arrays) == ["s"] and arrays.get("i") is None and arrays.pop("i", 5) == 5
    with pytest.raises(KeyError):
        arrays["i"]
    arrays.clear()
    assert arrays == {}


def test_columns_follow_numpys_protocol(con: firndb.Connection) -> None:
    with loaded() as con:
        column = con.table("t")["i64"]
        assert (np.asarray(column) == TYPES["i64"]).all()
        assert np.asarray(column, dtype=np.float32).dtype == np.float32
        assert np.array(column, copy=True).flags.writeable


def test_dlpack(con: firndb.Connection) -> None:
    with loaded() as con:
        for name in ("i8", "u16", "i32", "i64", "f32", "f64"):
            column = con.table("t")[name]
            assert column.__dlpack_device__() == (1, 0)
            tensor = np.from_dlpack(column)
            assert (tensor == TYPES[name]).all()
        assert '"dltensor"' in repr(column.__dlpack__())
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            assert '"dltensor_versioned"' in repr(column.__dlpack__(max_version=(1, 0)))
            tensor = np.from_dlpack(column)
            tensor[:] = 0
            assert con.execute("SELECT max(f64) FROM t").fetchone() == (TYPES["f64"].max(),)
        with pytest.raises(BufferError):
            column.__dlpack__(dl_device=(2, 0))
        with pytest.raises(BufferError):
            np.from_dlpack(con.sql("SELECT NULL::INTEGER AS x")["x"])
        del con, column
        gc.collect()
        assert tensor.shape == (ROWS,)


GARBAGE = """
import ctypes, sys
import numpy as np, firndb

con = firndb.connect()
rows = 200_000
con.append("t", {"i": np.arange(rows), "s": [f"a longer value {i}" for i in range(rows)]}, create=True)
con.execute("INSERT INTO t VALUES (-1, 'one more, which is hot')")
question = "SELECT sum(i), count(*), min(s), max(s), sum(length(s)) FROM t"
answer = con.execute(question).fetchall()
which, chunk = sys.argv[1], int(sys.argv[2])
native = which == "native"
table = con.table("t").arrow(native=native)
for column in table.columns:
    for buffer in column.chunk(chunk % column.num_chunks).buffers():
        if buffer is not None and buffer.size:
            ctypes.memset(buffer.address, 0xEE, buffer.size)
assert con.execute(question).fetchall() == answer
assert con.table("t").fetchall()[-1] == (-1, "one more, which is hot")
print("same answer")
"""


@pytest.mark.parametrize("which", ["consumer", "native"])
@pytest.mark.parametrize("chunk", [0, -1])
def test_garbage_in_arrow_buffers_changes_no_answer(which: str, chunk: int) -> None:
    done = subprocess.run([sys.executable, "-c", GARBAGE, which, str(chunk)], capture_output=True, text=True, timeout=120)
    # Frozen memory can't be written to: the code that tries is ended. Hot rows, which freeze soon, were copied for it.
    if chunk == 0 or done.returncode == -11:
        assert done.returncode == -11, (done.returncode, done.stderr)
    else:
        assert (done.returncode, done.stdout.strip()) == (0, "same answer"), done.stderr


FORKED = """
import gc, os
import numpy as np, firndb

con = firndb.connect()
expected = np.arange(1_000_000)
con.append("t", {"x": expected, "d": expected / 2}, create=True)
relation = con.table("t")
arrays = relation.fetchnumpy()
child = os.fork()
if child == 0:
    code = 0
    arrays["x"][:1000] = -1
    if not (arrays["x"][1000:] == expected[1000:]).all():
        code = 1
    own = relation.fetchnumpy()
    if not (own["x"] == expected).all():
        code = 2
    del arrays, own
    gc.collect()
    with firndb.connect() as other:
        other.append("t", {"x": expected * 2}, create=True)
        if not (other.table("t").fetchnumpy()["x"] == expected * 2).all():
            code = 3
    del con, relation
    gc.collect()
    os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (arrays["x"] == expected).all() and (arrays["d"] == expected / 2).all()
del arrays, relation
con.execute("UPDATE t SET x = x + 1")
assert con.execute("SELECT sum(x) FROM t").fetchone()[0] == int(expected.sum()) + 1_000_000
con.close()
print("ok")
"""


def test_forked_children_read_arrays_and_harm_nobody() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is mapped on Linux")
def test_mappings_are_bounded() -> None:
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    with loaded() as con:
        column = con.table("t")["i8"]
        first = column.to_numpy()
        per_array = max(1, mappings())
        held = [column.to_numpy() for _ in range(limit // 4 // per_array + 50)]
        assert mappings() <= limit // 4 + per_array
        assert len(Path("/proc/self/maps").read_text().splitlines()) < limit * 3 // 4
        assert (held[-1] == first).all() and (held[-1] == TYPES["i8"]).all()
    del held
    gc.collect()


def test_frames_for_pandas_show_the_same_memory() -> None:
    with loaded() as con:
        frame = con.table("t").df(dtypes="numpy")
        assert (frame["i64"].to_numpy() == TYPES["i64"]).all()
        frame.iloc[:, 3] = 0
        assert con.execute("SELECT min(i64) FROM t").fetchone() == (-500_000,)


def test_scans_of_frames_and_results_become_arrays(con: firndb.Connection) -> None:
    frame = pa.table({"x": pa.chunked_array([np.arange(100_000), np.arange(5), np.arange(300_000)])})
    expected = frame["x"].to_numpy()
    values = con.sql("SELECT x FROM frame").fetchnumpy()["x"]
    values[:] = values + 1
    assert (values == expected + 1).all()
    assert (frame["x"].to_numpy() == expected).all()


COMPUTED = [
    "SELECT [1, 2, 3] AS x",
    "SELECT 'a literal, longer than a view holds' AS x",
    "SELECT {'a': 1, 'b': 'text that is rather long'} AS x",
    "SELECT * FROM v",
    "SELECT * FROM t",
    "SELECT s, l, d, dl FROM t WHERE i = 4",
    "SELECT min(s), max(s), array_agg(i) FROM t",
    "VALUES ([1, 2], 'a literal, longer than a view holds')",
    "SELECT * FROM (VALUES (1, [1]), (2, NULL)) AS a(b, c)",
    "SELECT * FROM range(3)",
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
]


def read_only_ranges() -> list[tuple[int, int]]:
    """Addresses of the process that end whoever writes to them: frozen memory is there."""
    ranges = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, rights = line.split()[:2]
            if "w" not in rights:
                begin, end = (int(address, 16) for address in addresses.split("-"))
                ranges.append((begin, end))
    return ranges


def fill_with_garbage(table: pa.Table) -> None:
    protected = read_only_ranges()
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is None or not buffer.size:
                    continue
                end = buffer.address + buffer.size
                if not any(begin < end and buffer.address < until for begin, until in protected):
                    ctypes.memset(buffer.address, 0xEE, buffer.size)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("sql", COMPUTED)
def test_garbage_in_computed_rows_changes_no_answer(con: firndb.Connection, sql: str, native: bool) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT range AS i, 'a string that is long ' || range AS s, [range, 1] AS l FROM range(10) AS r(range)"
    )
    con.execute("ALTER TABLE t ADD COLUMN d VARCHAR DEFAULT 'a default value that is long'")
    con.execute("ALTER TABLE t ADD COLUMN dl INTEGER[] DEFAULT [1, 2, 3]")
    con.execute("CREATE VIEW v AS SELECT [4, 5, 6] AS x, 'a literal in a view, a long one' AS y, {'a': [7]} AS z")
    answer = con.execute(sql).fetchall()
    for _ in range(2):
        relation = con.sql(sql)
        fill_with_garbage(relation.arrow(native=native))
        assert relation.fetchall() == answer
        fill_with_garbage(con.execute(sql).arrow(native=native))
        fill_with_garbage(con.sql(sql).fetch_record_batch(native=native).read_all())
        assert con.execute(sql).fetchall() == answer


def test_garbage_in_a_large_computed_result_changes_no_answer(con: firndb.Connection) -> None:
    relation = con.sql("SELECT range * 2 AS x, 'value ' || range AS s FROM range(400000) AS r(range)")
    rows = relation.fetchall()
    fill_with_garbage(relation.arrow())
    assert relation.fetchall() == rows
