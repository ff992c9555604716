"""What Python gets of UUIDs, JSON and maps within lists, structs and maps."""

import uuid

import firndb
import pytest

ONE = uuid.UUID("00000000-0000-0000-0000-000000000001")
TWO = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")


def table() -> firndb.Connection:
    con = firndb.connect()
    con.execute("CREATE TABLE t (i INTEGER, u UUID, l UUID[], s STRUCT(u UUID, j JSON))")
    con.execute(
        f"INSERT INTO t VALUES (1, '{ONE}', ['{ONE}'::UUID, NULL], {{'u': '{ONE}'::UUID, 'j': '{{}}'::JSON}}), "
        f"(2, '{TWO}', NULL, NULL)"
    )
    return con


def test_uuids_within_columns() -> None:
    row = table().execute("SELECT l, s FROM t ORDER BY i").fetchone()
    assert row == ([ONE, None], {"u": ONE, "j": "{}"})


def test_uuids_within_what_is_computed() -> None:
    con = table()
    row = con.execute(
        "SELECT list(u ORDER BY i), max(u, 1), {'a': [first(u ORDER BY i)]}, MAP {'k': any_value(u)} FROM t WHERE i = 1"
    ).fetchone()
    assert row == ([ONE], [ONE], {"a": [ONE]}, {"k": ONE})
    assert con.execute("SELECT unnest([u, NULL]) FROM t WHERE i = 2").fetchall() == [(TWO,), (None,)]
    assert con.execute("SELECT list_transform([u], x -> {'x': x}) FROM t WHERE i = 1").fetchone() == ([{"x": ONE}],)


def test_maps_whose_keys_python_cannot_hash() -> None:
    con = firndb.connect()
    row = con.execute("SELECT MAP {{'a': 1}: 'x', {'a': 2}: 'y'}").fetchone()
    assert row == ({"key": [{"a": 1}, {"a": 2}], "value": ["x", "y"]},)
    assert con.execute("SELECT MAP {[1]: 'x'}").fetchone() == ({(1,): "x"},)


def test_arrow_is_told_what_is_within() -> None:
    pa = pytest.importorskip("pyarrow")
    schema = pa.table(table().sql("SELECT list(u) AS l, list(s.j) AS j FROM t")).schema
    assert "uuid" in str(schema.field("l").type)
