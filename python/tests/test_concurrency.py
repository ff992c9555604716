"""Transactions, threads, interrupts, fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import firndb
import pyarrow as pa
import pytest

#: Runs for minutes unless it is stopped.
ENDLESS = "SELECT sum(sin(a.range * b.range)) FROM range(1000000) a(range), range(1000000) b(range)"


def test_a_transaction_commits_at_its_end(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    with con.transaction() as same:
        assert same is con and con.in_transaction
        con.execute("INSERT INTO t VALUES (1)")
    assert not con.in_transaction
    assert con.cursor().execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_transaction_rolls_back_on_an_exception(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    with pytest.raises(KeyError), con.transaction():
        con.execute("INSERT INTO t VALUES (1)")
        raise KeyError
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(firndb.DataError), con.transaction():
        con.execute("INSERT INTO t VALUES (1)")
        con.execute("SELECT 1 / 0").fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_an_error_that_is_caught_in_a_transaction_does_not_lose_its_rows_silently(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE kept (a INTEGER PRIMARY KEY)")
    with pytest.raises(firndb.Error) as raised, con.transaction():
        con.execute("INSERT INTO kept VALUES (1), (2)")
        with pytest.raises(firndb.IntegrityError):
            con.execute("INSERT INTO kept VALUES (1)")
    assert raised.value.sqlstate == "25P02"
    assert not con.in_transaction
    assert con.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_commit_and_rollback_without_a_transaction_do_nothing(con: firndb.Connection) -> None:
    assert con.commit() is con
    assert con.rollback() is con


def test_commit_keeps_the_result(con: firndb.Connection) -> None:
    con.begin()
    con.execute("SELECT * FROM range(3) AS r(range)")
    assert con.fetchone() == (0,)
    con.commit()
    assert con.fetchall() == [(1,), (2,)]


def test_isolation_levels(con: firndb.Connection) -> None:
    for level in ("snapshot", "SERIALIZABLE", "repeatable read"):
        try:
            with con.transaction(isolation=level):
                con.execute("SELECT 1")
        except firndb.NotSupportedError as error:
            assert error.sqlstate == "0A000"
    with pytest.raises(firndb.ProgrammingError):
        con.begin("chaos")


def test_the_first_writer_wins(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT 1 AS i")
    other = con.cursor()
    con.begin()
    other.begin()
    con.execute("UPDATE t SET i = 2")
    with pytest.raises(firndb.OperationalError) as raised:
        other.execute("UPDATE t SET i = 3")
    assert raised.value.sqlstate == "40001"
    other.rollback()
    con.commit()
    assert con.execute("SELECT i FROM t").fetchone() == (2,)


def test_after_an_error_a_transaction_waits_for_rollback(con: firndb.Connection) -> None:
    con.begin()
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT missing")
    with pytest.raises(firndb.OperationalError) as raised:
        con.execute("SELECT 1")
    assert raised.value.sqlstate == "25P02"
    con.rollback()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_threads_share_a_connection(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    failures: list[BaseException] = []

    def insert(start: int) -> None:
        try:
            for i in range(start, start + 25):
                con.execute("INSERT INTO t VALUES (?)", [i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=insert, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert con.execute("SELECT count(*), count(DISTINCT i) FROM t").fetchone() == (100, 100)


def test_threads_with_cursors_run_side_by_side(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT range AS i FROM range(100000) AS r(range)")
    sums: list[object] = []

    def add_up() -> None:
        cursor = con.cursor()
        for _ in range(5):
            sums.append(cursor.execute("SELECT sum(i) FROM t").fetchone())

    threads = [threading.Thread(target=add_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sums) == 20 and len(set(sums)) == 1


def test_other_threads_run_while_a_query_does(con: firndb.Connection) -> None:
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        start = time.perf_counter()
        con.execute("SELECT sum(sin(range)) FROM range(20000000) AS r(range)").fetchall()
        spent = time.perf_counter() - start
    finally:
        stop.set()
        thread.join()
    if spent > 0.2:
        assert len(ticks) > 5


def test_interrupt_from_another_thread(con: firndb.Connection) -> None:
    timer = threading.Timer(0.3, con.interrupt)
    timer.start()
    start = time.perf_counter()
    with pytest.raises(firndb.OperationalError) as raised:
        con.execute(ENDLESS).fetchall()
    assert raised.value.sqlstate == "57014"
    assert time.perf_counter() - start < 2
    timer.join()
    assert con.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "read",
    [
        lambda con: con.execute(ENDLESS).fetchone(),
        lambda con: con.execute(ENDLESS).fetchall(),
        lambda con: con.sql(ENDLESS).arrow(),
        lambda con: con.sql(ENDLESS).fetchnumpy(),
        lambda con: con.sql(ENDLESS).fetch_record_batch().read_all(),
        lambda con: con.execute(f"CREATE TABLE e AS {ENDLESS}"),
    ],
    ids=["fetchone", "fetchall", "arrow", "numpy", "stream", "create"],
)
def test_ctrl_c_stops_a_query(con: firndb.Connection, read: object) -> None:
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        read(con)  # type: ignore[operator]
    late = time.perf_counter() - pressed[0]
    timer.join()
    assert late < 0.5
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_interrupt_stops_a_copy_whose_rows_never_wait(con: firndb.Connection, tmp_path: Path) -> None:
    con.execute("CREATE TABLE big AS SELECT range AS i FROM range(2000000)")
    threading.Timer(0.5, con.interrupt).start()
    started = time.monotonic()
    with pytest.raises(firndb.OperationalError) as raised:
        con.execute(f"COPY (SELECT a.i FROM big a, big b) TO '{tmp_path}/out.csv'")
    assert raised.value.sqlstate == "57014"
    assert time.monotonic() - started < 10
    assert not list(tmp_path.iterdir())


def test_interrupt_stops_an_append_without_end(con: firndb.Connection) -> None:
    batch = pa.record_batch({"i": [1, 2, 3]})

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield batch

    con.execute("CREATE TABLE t (i BIGINT)")
    threading.Timer(0.5, con.interrupt).start()
    with pytest.raises(firndb.OperationalError) as raised:
        con.append("t", pa.RecordBatchReader.from_batches(batch.schema, endless()))
    assert raised.value.sqlstate == "57014"
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_signal_handlers_run_during_a_query(con: firndb.Connection) -> None:
    class Overdue(Exception):
        pass

    def ring(*_: object) -> None:
        raise Overdue

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Overdue):
            con.execute(ENDLESS).fetchall()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_signal_handler_may_use_the_database(con: firndb.Connection) -> None:
    seen: list[object] = []
    other = con.cursor()

    def handle(*_: object) -> None:
        seen.append(other.execute("SELECT 42").fetchone())
        con.interrupt()

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(firndb.OperationalError):
            con.execute(ENDLESS).fetchall()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert seen == [(42,)]


FORKED = """
import os, sys
import firndb

con = firndb.connect()
con.execute("CREATE TABLE t AS SELECT range AS i FROM range(100000) AS r(range)")
relation = con.sql("SELECT * FROM t")
relation.fetchone()
child = os.fork()
if child == 0:
    code = 1
    try:
        con.execute("SELECT 1")
    except firndb.InterfaceError as error:
        code = 0 if error.sqlstate == "08003" and "fork" in str(error) else 2
    try:
        relation.fetchall()
        code = 3
    except firndb.InterfaceError:
        pass
    with firndb.connect() as own:
        if own.execute("SELECT 42").fetchone() != (42,):
            code = 4
    del con, relation
    sys.exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert con.execute("SELECT sum(i) FROM t").fetchone()[0] == 4999950000
assert len(relation) == 100000
print("ok")
"""


def test_a_forked_child_gets_a_clear_error() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


TORN = f"""
import os, sys, threading, time
import firndb

con = firndb.connect()
failures = []

def run():
    try:
        con.execute({ENDLESS!r}).fetchall()
    except firndb.OperationalError as error:
        failures.append(error.sqlstate)

thread = threading.Thread(target=run)
thread.start()
time.sleep(0.5)
child = os.fork()
if child == 0:
    try:
        firndb.connect()
    except firndb.InterfaceError as error:
        os._exit(0 if error.sqlstate == "08003" else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
con.interrupt()
thread.join()
assert failures == ["57014"], failures
assert os.waitstatus_to_exitcode(status) == 0, status
print("ok")
"""


def test_a_child_forked_while_the_engine_works_opens_no_database() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", TORN], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


def test_a_program_may_end_with_everything_open() -> None:
    program = (
        "import firndb, threading\n"
        "con = firndb.connect(); con.execute('CREATE TABLE t AS SELECT range AS i FROM range(100000) AS r(range)')\n"
        "con.begin(); con.execute('DELETE FROM t WHERE i < 10'); rows = con.sql('SELECT * FROM t'); rows.fetchone()\n"
        "stream = con.sql('SELECT * FROM t').fetch_record_batch(); stream.read_next_batch()\n"
        "print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "ok", "")


def test_connections_can_be_referenced_weakly(con: firndb.Connection) -> None:
    assert weakref.ref(con)() is con
    relation = con.sql("SELECT 1")
    assert weakref.ref(relation)() is relation


def test_closing_a_connection_ends_what_its_cursors_run(con: firndb.Connection) -> None:
    cursor = con.cursor()
    failures: list[firndb.Error] = []

    def run() -> None:
        try:
            cursor.execute(ENDLESS).fetchall()
        except firndb.Error as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    con.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [error.sqlstate for error in failures] in (["57014"], ["08003"])
    assert cursor.closed
