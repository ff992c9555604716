"""FirnDB's own memory that comes back is adopted; everything else is copied."""

from __future__ import annotations

import firndb
import numpy as np
import pyarrow as pa


def frozen_bytes(con: firndb.Connection) -> int:
    row = con.sql("SELECT memory_usage_bytes FROM firndb_memory() WHERE tag = 'frozen'").fetchone()
    assert row is not None
    return int(row[0])


def numbers(con: firndb.Connection, rows: int = 2_500_000) -> None:
    values = np.arange(rows, dtype=np.int64)
    frame = pa.table({"i": values, "f": values * 0.5, "s": pa.array([f"text {i}" for i in range(1000)] * (rows // 1000))})
    con.append("source", frame, create=True)


def addresses(table: pa.Table, name: str) -> list[int]:
    return [chunk.buffers()[-1].address for chunk in table[name].chunks]


def test_a_table_that_was_exported_is_appended_without_a_copy(con: firndb.Connection) -> None:
    numbers(con)
    exported = con.table("source").arrow(native=True)
    before = frozen_bytes(con)
    con.append("copy", exported, create=True)
    again = con.table("copy").arrow(native=True)
    # What fills no extent may be cut anew.
    for name in ("i", "f"):
        assert addresses(again, name)[0] == addresses(exported, name)[0]
    assert frozen_bytes(con) - before < before / 2
    con.execute("UPDATE source SET i = -1")
    con.execute("DROP TABLE source")
    del exported, again
    con.execute("VACUUM")
    numbers(con)
    assert con.sql("SELECT sum(i), count(*), count(DISTINCT s) FROM copy").fetchone() == (
        2_500_000 * 2_499_999 // 2,
        2_500_000,
        1000,
    )


def test_numpy_arrays_of_frozen_columns_are_copied(con: firndb.Connection) -> None:
    numbers(con)
    array = con.table("source").fetchnumpy()["i"]
    con.append("other", {"i": array}, create=True)
    array[:] = 7
    assert con.sql("SELECT sum(i) FROM other").fetchone() == (2_500_000 * 2_499_999 // 2,)
