"""Data frames of the caller: found by name, registered."""

from __future__ import annotations

from decimal import Decimal

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

everywhere = pa.table({"i": [10, 20]})


def test_frames_are_found_by_the_names_of_variables(con: firndb.Connection) -> None:
    arrow = pa.table({"i": [1, 2]})
    pandas = pd.DataFrame({"i": [3]})
    polars = pl.DataFrame({"i": [4]})
    lazy = polars.lazy()
    batch = pa.record_batch({"i": [5]})
    arrays = {"i": np.array([6, 7])}
    dataset = ds.dataset(arrow)
    for name, rows in [("arrow", 2), ("pandas", 1), ("polars", 1), ("lazy", 1), ("batch", 1), ("arrays", 2), ("dataset", 2)]:
        assert con.execute(f"SELECT count(*) FROM {name}").fetchone() == (rows,), name
    assert [len(arrow), len(pandas), lazy.collect().height, batch.num_rows, len(arrays), dataset.count_rows()]


def test_globals_are_found_after_locals(con: firndb.Connection) -> None:
    assert con.execute("SELECT sum(i) FROM everywhere").fetchone() == (30,)

    def inner() -> object:
        everywhere = pa.table({"i": [1]})
        assert everywhere.num_rows
        return con.execute("SELECT sum(i) FROM everywhere").fetchone()

    assert inner() == (1,)


def test_relations_find_the_frames_of_where_they_were_made(con: firndb.Connection) -> None:
    def make() -> firndb.Relation:
        local = pa.table({"i": [1, 2, 3]})
        assert local.num_rows
        return con.sql("SELECT sum(i) FROM local")

    assert make().fetchall() == [(6,)]


def test_tables_come_before_frames(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE both_have AS SELECT 1 AS i")
    both_have = pa.table({"i": [2]})
    assert both_have.num_rows
    assert con.execute("SELECT i FROM both_have").fetchone() == (1,)


def test_variables_that_are_no_frames_are_no_tables(con: firndb.Connection) -> None:
    number, text, plain, kind = 1, "text", {"a": [1]}, pl.DataFrame
    assert number and text and plain and kind
    for name in ("number", "text", "plain", "kind", "pa", "con"):
        with pytest.raises(firndb.ProgrammingError) as raised:
            con.execute(f"SELECT * FROM {name}")
        assert raised.value.sqlstate == "42P01"


def test_frames_join_tables(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE orders (id INTEGER, name VARCHAR)")
    con.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    prices = pd.DataFrame({"name": ["a", "b"], "price": [0.5, 1.5]})
    assert len(prices) == 2
    rows = con.sql("SELECT id, price FROM orders JOIN prices USING (name) ORDER BY id").fetchall()
    assert rows == [(1, 0.5), (2, 1.5)]


def test_names_of_variables_keep_their_case(con: firndb.Connection) -> None:
    MyFrame = pa.table({"i": [1]})
    assert MyFrame.num_rows
    assert con.execute("SELECT i FROM MyFrame").fetchone() == (1,)
    assert con.execute('SELECT i FROM "MyFrame"').fetchone() == (1,)
    assert con.table("MyFrame").fetchall() == [(1,)]


def test_relations_can_be_named_in_queries(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT range AS i FROM range(100) AS r(range)")
    relation = con.sql("SELECT i FROM t WHERE i < 10")
    doubled = con.sql("SELECT i * 2 AS j FROM relation")
    assert con.execute("SELECT sum(j) FROM doubled").fetchone() == (90,)
    assert relation.shape == doubled.shape == (10, 1)


def test_relations_see_their_transaction_when_named(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    with con.transaction():
        con.execute("INSERT INTO t VALUES (1), (2)")
        inner = con.sql("SELECT i FROM t")
        assert con.execute("SELECT sum(i) FROM inner").fetchone() == (3,)
        assert len(inner) == 2


def test_registered_frames_are_views_until_unregistered(con: firndb.Connection) -> None:
    con.register("seen", pa.table({"i": [1, 2]}))
    assert con.execute("SELECT sum(i) FROM seen").fetchone() == (3,)
    con.register("seen", {"i": np.array([5])})
    assert con.table("seen").fetchall() == [(5,)]
    con.unregister("seen")
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT * FROM seen")
    con.unregister("seen")
    with pytest.raises(firndb.ProgrammingError):
        con.register("seen", 5)


def test_registered_frames_belong_to_their_session(con: firndb.Connection) -> None:
    con.register("mine", pa.table({"i": [1]}))
    with pytest.raises(firndb.ProgrammingError):
        con.cursor().execute("SELECT * FROM mine")


def test_frames_are_scanned_where_they_lie(con: firndb.Connection) -> None:
    values = np.arange(100_000)
    con.register("frame", {"i": values})
    values[:] = 7
    assert con.execute("SELECT min(i), max(i) FROM frame").fetchone() == (7, 7)


def test_frames_with_nested_and_dictionary_columns(con: firndb.Connection) -> None:
    frame = pa.table(
        {
            "d": pa.array(["x", "y", None]).dictionary_encode(),
            "l": [[1], None, []],
            "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "large": pa.array(["a", "b", None], pa.large_string()),
            "view": pa.array(["a", "b", None], pa.string_view()),
        }
    )
    assert frame.num_rows == 3
    assert con.execute("SELECT * FROM frame").fetchall() == [
        ("x", [1], {"k": 1}, "a", "a"),
        ("y", None, {}, "b", "b"),
        (None, [], None, None, None),
    ]


def test_a_frame_without_arrow_types_is_an_error(con: firndb.Connection) -> None:
    frame = pd.DataFrame({"mixed": [1, "x", object()]})
    assert len(frame) == 3
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT * FROM frame")


def test_a_null_among_the_values_of_a_dictionary_is_null(con: firndb.Connection) -> None:
    coded = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2], pa.int8()), pa.array(["x", None, "a text of more than twelve bytes"])
    )
    frame = pa.table({"c": coded, "n": pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0]), pa.array([7, None]))})
    expected = [("x", 7), (None, None), (None, None), ("a text of more than twelve bytes", 7)]
    assert con.execute("SELECT * FROM frame").fetchall() == expected
    assert con.execute("SELECT count(c), count(n) FROM frame WHERE c IS NOT NULL").fetchone() == (2, 2)
    sliced = frame.slice(1, 2)
    assert sliced.num_rows == 2
    assert con.execute("SELECT c FROM sliced").fetchall() == [(None,), (None,)]


def test_columns_of_nothing_and_of_wide_integers_of_polars(con: firndb.Connection) -> None:
    frame = pl.DataFrame({"nothing": [None, None], "empty": [[], []], "wide": pl.Series([2**100, None], dtype=pl.Int128)})
    assert con.execute("SELECT * FROM frame").fetchall() == [(None, [], Decimal(2**100)), (None, [], None)]
    assert con.append("kept", frame, create=True) == 2
    too_wide = pl.DataFrame({"wide": pl.Series([2**127 - 1], dtype=pl.Int128)})
    with pytest.raises(firndb.Error, match="38 digits"):
        con.append("refused", too_wide, create=True)


def test_objects_of_polars_are_refused_and_not_their_addresses(con: firndb.Connection) -> None:
    frame = pl.DataFrame({"c": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(firndb.ProgrammingError, match='"c" holds Python objects'):
        con.execute("SELECT * FROM frame")
    with pytest.raises(firndb.ProgrammingError, match='"c" holds Python objects'):
        con.append("t", frame, create=True)


def test_columns_of_pandas_that_arrow_has_no_form_for(con: firndb.Connection) -> None:
    frame = pd.DataFrame(
        {
            "swapped": np.array([1, 2], dtype=">i4"),
            "sparse": pd.arrays.SparseArray([0, 3]),
            "wide": np.array([2**70, None], dtype=object),
        }
    )
    assert len(frame) == 2
    assert con.execute("SELECT * FROM frame").fetchall() == [(1, 0, Decimal(2**70)), (2, 3, None)]
    for bad, message in [
        (pd.DataFrame({"p": pd.period_range("2024-01", periods=2, freq="M")}), "periods"),
        (pd.DataFrame({"ok": [1, 2], "mixed": np.array([1, "a"], dtype=object)}), '"mixed".*BIGINT, VARCHAR'),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than once"),
    ]:
        with pytest.raises(firndb.ProgrammingError, match=message):
            con.append("t", bad, create=True)


def test_types_of_arrow_that_no_table_has_are_refused_by_the_column(con: firndb.Connection) -> None:
    bare = pa.table({"c": pa.array([{}, None], pa.struct([]))})
    one = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    either = pa.table({"c": one})
    assert bare.num_rows and either.num_rows
    for name in ("bare", "either"):
        for sql in (f"SELECT * FROM {name}", f"SELECT c, count(*) FROM {name} GROUP BY c"):
            with pytest.raises(firndb.NotSupportedError, match='column "c"'):
                con.execute(sql).fetchall()
    views = pa.table({"c": pa.array([[1, 2], None], pa.large_list_view(pa.int64()))})
    assert views.num_rows
    assert con.execute("SELECT c FROM views").fetchall() == [([1, 2],), (None,)]


def test_append_computes_generated_columns_and_refuses_values_for_them(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, twice INTEGER GENERATED ALWAYS AS (a * 2) STORED, b VARCHAR)")
    assert con.append("t", pa.table({"a": [1, 2], "b": ["x", "y"]})) == 2
    assert con.append("t", pa.table({"b": ["z"], "a": [3]}), by_name=True) == 1
    for refused in (
        lambda: con.append("t", pa.table({"a": [1], "twice": [7], "b": ["x"]})),
        lambda: con.append("t", pa.table({"a": [1], "twice": [7]}), by_name=True),
    ):
        with pytest.raises(firndb.Error, match="twice") as caught:
            refused()
        assert caught.value.sqlstate == "428C9"
    assert con.execute("SELECT * FROM t ORDER BY a").fetchall() == [(1, 2, "x"), (2, 4, "y"), (3, 6, "z")]


def test_append_refuses_numbers_for_generated_always_identities(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (id INTEGER GENERATED ALWAYS AS IDENTITY, d INTEGER GENERATED BY DEFAULT AS IDENTITY, v INTEGER)")
    with pytest.raises(firndb.Error, match="id") as caught:
        con.append("t", pa.table({"id": [5], "d": [6], "v": [7]}))
    assert caught.value.sqlstate == "428C9"
    con.append("t", pa.table({"v": [7], "d": [6]}), by_name=True)
    assert con.execute("SELECT * FROM t").fetchall() == [(1, 6, 7)]


def test_a_column_that_is_not_read_may_hold_anything(con: firndb.Connection) -> None:
    pandas = pd.DataFrame({"a": [1, 2], "mixed": [1, "x"], "objects": [object(), object()]})
    polars = pl.DataFrame({"a": [1, 2], "objects": pl.Series([object(), object()], dtype=pl.Object)})
    periods = pd.DataFrame({"a": [1, 2], "p": pd.period_range("2024-01", periods=2, freq="M")})
    arrays = {"a": np.array([1, 2]), "mixed": [1, "x"]}
    for name in ("pandas", "polars", "periods", "arrays"):
        assert con.execute(f"SELECT a FROM {name} ORDER BY a").fetchall() == [(1,), (2,)], name
        assert con.execute(f"SELECT count(*) FROM {name}").fetchone() == (2,), name
        with pytest.raises(firndb.ProgrammingError):
            con.execute(f"SELECT * FROM {name}").fetchall()
    for query in ("SELECT mixed FROM pandas", "SELECT a FROM pandas WHERE mixed IS NULL", "SELECT count(mixed) FROM pandas"):
        with pytest.raises(firndb.ProgrammingError, match='column "mixed": values of different types'):
            con.execute(query).fetchall()
    con.register("view", pandas)
    assert con.execute("SELECT sum(a) FROM view").fetchone() == (3,)
    with pytest.raises(firndb.ProgrammingError, match='column "objects"'):
        con.execute("SELECT objects FROM view").fetchall()
    con.execute("CREATE TABLE t (a INTEGER, mixed VARCHAR, objects VARCHAR)")
    with pytest.raises(firndb.ProgrammingError, match='column "mixed"'):
        con.append("t", pandas)
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert [len(frame) for frame in (polars, periods)] == [2, 2]
    assert len(arrays) == 2


def test_append_does_not_round(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    assert con.append("t", {"i": np.array([1.0, 2.0])}) == 2
    assert con.append("t", pd.DataFrame({"i": [3.0, None]})) == 2
    with pytest.raises(firndb.DataError, match=r'1\.5 in row 2 is no value of column "i"') as caught:
        con.append("t", {"i": np.array([1.0, 1.5])})
    assert caught.value.sqlstate == "22003"
    with pytest.raises(firndb.DataError, match=r'2\.50 in row 1 is no value of column "i"'):
        con.append("t", pa.table({"i": pa.array([Decimal("2.50")])}))
    with pytest.raises(firndb.DataError):
        con.append("t", {"i": np.array([np.nan])})
    assert con.execute("SELECT i FROM t ORDER BY i").fetchall() == [(1,), (2,), (3,), (None,)]


def test_appended_nans_are_one(con: firndb.Connection) -> None:
    other = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    single = np.array([0x7FC00001, 0xFFC00000], dtype=np.uint32).view(np.float32)
    con.execute("CREATE TABLE t (d DOUBLE, f REAL, n DOUBLE)")
    con.execute("CREATE TABLE checked (d DOUBLE CHECK (d > 0), twice DOUBLE GENERATED ALWAYS AS (d * 2) STORED)")
    for rows in (2, 200_000, 300_001):
        numbers = np.arange(rows, dtype=np.float64)
        d, f = numbers.copy(), numbers.astype(np.float32)
        d[:2], f[-2:] = other, single
        n = pa.array(d, mask=numbers % 2 == 1)
        con.execute("DELETE FROM t")
        con.execute("DELETE FROM checked")
        con.append("t", pa.table({"d": d, "f": f, "n": n}))
        con.append("checked", pa.table({"d": np.where(d == 0, 1, d)}))
        columns = con.execute("SELECT d, f FROM t").fetchnumpy()
        assert {int(bits) for bits in columns["d"][np.isnan(columns["d"])].view(np.uint64)} == {0x7FF8000000000000}
        assert {int(bits) for bits in columns["f"][np.isnan(columns["f"])].view(np.uint32)} == {0x7FC00000}
        assert con.execute("SELECT count(DISTINCT d) FROM t").fetchone() == (rows - 1,)
        assert con.execute("SELECT count(*), min(twice) IS NULL FROM checked WHERE d = 'nan'").fetchone() == (2, False)
        assert con.execute("SELECT count(*) FROM t WHERE d = 'nan' AND n IS NOT NULL").fetchone() == (1,)
