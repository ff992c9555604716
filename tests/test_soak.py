"""Eight threads of random transactions: totals hold, memory comes back, nobody spins. ``FIRNDB_SOAK=60`` runs it for a minute."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import firndb

SECONDS = float(os.environ.get("FIRNDB_SOAK", "6"))
ACCOUNTS = 20_000
BALANCE = 100
THREADS = 8


def proportional_set() -> int:
    """Bytes of memory that this process has, what it shares counted in parts."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024


class Bank:
    """Accounts whose balances, with those moved to other tables, always add up."""

    def __init__(self) -> None:
        self.con = firndb.connect()
        self.con.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR)")
        self.con.execute(f"INSERT INTO account SELECT value, {BALANCE}, 'opened ' || value FROM range({ACCOUNTS}) AS g(value)")
        self.con.execute("CREATE TABLE transfer (source INTEGER, target INTEGER, amount BIGINT)")
        self.failures: list[BaseException] = []
        self.committed = [0] * THREADS
        self.end = 0.0

    def total(self, con: firndb.Connection) -> int:
        """All balances: the same in every snapshot."""
        return int(con.execute("SELECT sum(balance) FROM account").fetchone()[0])

    def transact(self, con: firndb.Connection, r: random.Random) -> None:
        """One random transaction; a third roll back after all their work."""
        source, target = r.sample(range(ACCOUNTS), 2)
        amount = r.randint(1, 10)
        con.execute("BEGIN")
        match r.randint(0, 5):
            case 0 | 1:
                con.execute("UPDATE account SET balance = balance - ? WHERE id = ?", [amount, source])
                con.execute("UPDATE account SET balance = balance + ?, note = ? WHERE id = ?", [amount, "n" * amount * 9, target])
                con.execute("INSERT INTO transfer VALUES (?, ?, ?)", [source, target, amount])
            case 2:
                con.execute("SAVEPOINT s")
                con.execute("DELETE FROM account WHERE id = ?", [source])
                con.execute("ROLLBACK TO s")
            case 3:
                moved = con.execute("DELETE FROM account WHERE id = ? RETURNING balance", [source]).fetchone()
                if moved is not None:
                    con.execute("INSERT INTO account VALUES (?, ?, 'reopened')", [source, moved[0]])
            case 4:
                assert self.total(con) == ACCOUNTS * BALANCE
                con.execute("DELETE FROM transfer WHERE amount = ?", [amount])
            case _:
                low = r.randint(0, ACCOUNTS - 50)
                con.execute(f"UPDATE account SET note = note || 'x' WHERE id BETWEEN {low} AND {low + 49} AND length(note) < 100")
        con.execute("ROLLBACK" if r.random() < 1 / 3 else "COMMIT")

    def work(self, number: int) -> None:
        """Transactions until the end, a conflict being tried no more."""
        con, r = self.con.cursor(), random.Random(number)
        try:
            while time.monotonic() < self.end:
                try:
                    self.transact(con, r)
                    self.committed[number] += 1
                except firndb.OperationalError as error:
                    if error.sqlstate != "40001":
                        raise
                    con.execute("ROLLBACK")
                except firndb.IntegrityError as error:
                    if error.sqlstate != "23505":
                        raise
                    con.execute("ROLLBACK")
        except BaseException as error:
            self.failures.append(error)
        finally:
            con.close()

    def run(self, seconds: float) -> None:
        """All threads for some seconds."""
        self.end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]


def test_eight_threads_of_random_transactions() -> None:
    bank = Bank()
    bank.run(SECONDS / 3)
    bank.con.execute("DELETE FROM transfer")
    bank.con.execute("VACUUM")
    before = proportional_set()
    bank.run(SECONDS * 2 / 3)
    assert bank.total(bank.con) == ACCOUNTS * BALANCE
    assert bank.con.execute("SELECT count(*), count(DISTINCT id) FROM account").fetchone() == (ACCOUNTS, ACCOUNTS)
    assert sum(bank.committed) > 0
    bank.con.execute("DELETE FROM transfer")
    bank.con.execute("VACUUM")
    time.sleep(0.5)
    after = proportional_set()
    assert after < before + (32 << 20), f"{before >> 20} MiB before, {after >> 20} MiB after"
    # An idle database costs nothing.
    busy = time.process_time()
    time.sleep(1)
    assert time.process_time() - busy < 0.02
    bank.con.close()
