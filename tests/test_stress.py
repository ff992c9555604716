"""Exports that are held while rows change, freeze and go: sums are right in every snapshot and frame, and space comes back.

``FIRNDB_SOAK=120`` runs it for two minutes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import firndb
import pyarrow.compute as pc
from test_soak import proportional_set

SECONDS = float(os.environ.get("FIRNDB_SOAK", "6"))
ROWS = 200_000
TOTAL = ROWS * 10


class Stress:
    """Rows of groups of ten: whatever moves between the rows of a group, its sum stays."""

    def __init__(self) -> None:
        self.con = firndb.connect()
        self.con.execute("CREATE TABLE t (id BIGINT, part BIGINT, amount BIGINT, note VARCHAR)")
        self.failures: list[BaseException] = []
        self.held = 0
        self.end = 0.0

    def fill(self) -> None:
        """All rows that are missing, ten in each."""
        self.con.execute("DELETE FROM t")
        self.con.execute(f"INSERT INTO t SELECT i, i // 10, 10, 'row ' || i || ' of them' FROM range({ROWS}) r(i)")

    def write(self, con: firndb.Connection, r: random.Random) -> None:
        """Moves amounts within groups, replaces groups, deletes and rolls back."""
        first = r.randrange(ROWS // 10 - 50)
        con.execute("BEGIN")
        match r.randrange(4):
            case 0:
                con.execute(
                    "UPDATE t SET amount = amount + CASE WHEN id % 10 = 0 THEN 9 ELSE -1 END WHERE part BETWEEN ? AND ?",
                    [first, first + 40],
                )
            case 1:
                con.execute(
                    "UPDATE t SET note = note || '+' WHERE part BETWEEN ? AND ? AND length(note) < 60", [first, first + 40]
                )
            case 2:
                moved = con.execute("DELETE FROM t WHERE part = ? RETURNING id, part, amount, note", [first]).fetchall()
                for row in moved:
                    con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", list(row))
            case _:
                con.execute("DELETE FROM t WHERE part % 7 = 3")
                con.execute("ROLLBACK")
                return
        con.execute("COMMIT" if r.random() < 0.8 else "ROLLBACK")

    def export(self, con: firndb.Connection, r: random.Random, frames: list[tuple[Any, int]]) -> None:
        """One frame more, and a look at one that was held."""
        kind = r.randrange(3)
        if kind == 0:
            frames.append((con.sql("SELECT amount, note FROM t").arrow(native=True), TOTAL))
        elif kind == 1:
            frames.append((con.sql("SELECT amount FROM t").arrow(), TOTAL))
        else:
            frames.append((con.sql("SELECT amount FROM t").fetchnumpy(), TOTAL))
        assert con.execute("SELECT sum(amount), count(*) FROM t").fetchone() == (TOTAL, ROWS)
        if len(frames) > 6:
            frame, total = frames.pop(r.randrange(len(frames)))
            held = frame["amount"]
            found = int(held.sum()) if not hasattr(frame, "schema") else pc.sum(held).as_py()
            assert found == total, (found, total)
            self.held += 1

    def work(self, number: int) -> None:
        con, r = self.con.cursor(), random.Random(number)
        frames: list[tuple[Any, int]] = []
        try:
            while time.monotonic() < self.end:
                try:
                    if number % 2:
                        self.export(con, r, frames)
                    else:
                        self.write(con, r)
                except firndb.OperationalError as error:
                    if error.sqlstate != "40001":
                        raise
                    con.execute("ROLLBACK")
        except BaseException as error:
            self.failures.append(error)
        finally:
            con.close()

    def run(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def settle(self) -> int:
        """The memory when everything has been collected."""
        self.con.execute("VACUUM")
        time.sleep(0.3)
        self.con.execute("VACUUM")
        return proportional_set()


def test_exports_are_held_while_rows_change_and_go() -> None:
    stress = Stress()
    stress.fill()
    stress.run(SECONDS / 3)
    before = stress.settle()
    kept = stress.con.sql("SELECT amount FROM t").arrow(native=True)
    # Most of a frozen table goes; what a frame shows stays.
    stress.con.execute("PRAGMA freeze('t')")
    stress.con.execute("DELETE FROM t WHERE part % 10 <> 0")
    stress.con.execute("VACUUM")
    rows, gaps = stress.con.execute("SELECT sum(rows), sum(gaps) FROM firndb_blocks('t')").fetchone()
    assert rows - gaps == ROWS // 10 and gaps < 32_768, (rows, gaps)
    assert pc.sum(kept["amount"]).as_py() == TOTAL
    del kept
    stress.fill()
    stress.run(SECONDS * 2 / 3)
    assert stress.held > 0
    assert stress.con.execute("SELECT sum(amount), count(*), count(DISTINCT id) FROM t").fetchone() == (TOTAL, ROWS, ROWS)
    after = stress.settle()
    assert after < before + (32 << 20), f"{before >> 20} MiB before, {after >> 20} MiB after"
    held = {kind: size for kind, size in stress.con.execute("FROM firndb_memory()").fetchall()}
    assert held["undo"] < 1 << 20 and held["hot"] < 32 << 20, held
    stress.con.close()
