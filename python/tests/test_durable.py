"""Databases in files: what is committed lasts, whatever happens to the process.

``FIRNDB_KILLS=300`` kills that many writers instead of a few.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import firndb
import pyarrow as pa
import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.firn"


@contextmanager
def opened(path: Path | str | bytes, **options: Any) -> Iterator[firndb.Connection]:
    connection = firndb.connect(path, **options)
    try:
        yield connection
    finally:
        connection.close()


def files(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def left(path: Path, script: str, *, expect: int = -signal.SIGKILL) -> str:
    """Runs a program over a database that does not close it."""
    program = f"import os, signal, firndb\ncon = firndb.connect({str(path)!r})\n{script}\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == expect, done.stderr
    return done.stdout


EVERYTHING = """
    CREATE SCHEMA "Sales";
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TYPE price AS DECIMAL(12, 2);
    CREATE TYPE place AS STRUCT("At" INTEGER[], cost price, feeling mood);
    CREATE TYPE pair AS (a VARCHAR(3), b MAP(VARCHAR, place));
    CREATE SEQUENCE "Sales".numbers START 10 INCREMENT 5;
    CREATE TABLE "Sales"."Customers" (
        id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        "Name" VARCHAR NOT NULL UNIQUE,
        feeling mood DEFAULT 'ok',
        credit DECIMAL(12, 2) DEFAULT 100 CHECK (credit >= 0 AND credit < 1e6),
        twice DECIMAL(14, 2) GENERATED ALWAYS AS (credit * 2) STORED,
        since TIMESTAMP DEFAULT TIMESTAMP '2026-01-01 00:00:00'
    );
    CREATE TABLE orders (
        number BIGINT DEFAULT nextval('"Sales".numbers'),
        customer INTEGER REFERENCES "Sales"."Customers" (id) ON DELETE CASCADE,
        lines STRUCT(item VARCHAR, n INTEGER)[],
        tags MAP(VARCHAR, INTEGER),
        code UUID, raw BLOB, day DATE, moment TIMESTAMPTZ, span INTERVAL, flag BOOLEAN, weight REAL, big DECIMAL(38, 0)
    );
    CREATE INDEX by_day ON orders (day DESC, customer) WHERE flag;
    CREATE UNIQUE INDEX by_name ON "Sales"."Customers" (lower("Name"));
    CREATE VIEW totals AS
        SELECT c."Name" AS who, count(*) AS n FROM "Sales"."Customers" c JOIN orders o ON o.customer = c.id GROUP BY ALL;
    CREATE MACRO plus(a, b := 1) AS a + b;
    CREATE MACRO upto(n) AS TABLE SELECT * FROM range(n) AS r(i);
    COMMENT ON TABLE orders IS 'what was ordered';
    INSERT INTO "Sales"."Customers" ("Name", feeling) VALUES ('Ada', 'happy'), ('Grace', NULL);
    INSERT INTO orders (customer, lines, tags, code, raw, day, moment, span, flag, weight, big) VALUES
        (1, [{'item': 'pen', 'n': 2}, NULL], MAP {'a': 1}, '5c6f2a52-8a35-4c9a-9f5e-0f2d2a3b4c5d', '\\x00\\xff'::BLOB,
         '2026-02-03', '2026-02-03 04:05:06+00', INTERVAL '1 month 2 days', true, 1.5, 1),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    ALTER TABLE orders ADD COLUMN note VARCHAR DEFAULT 'none';
    ALTER TABLE orders DROP COLUMN weight;
    ALTER TABLE orders RENAME COLUMN day TO ordered;
    ALTER TABLE orders SET (strings = 'dictionary', freeze_after = '50ms');
    ALTER TABLE orders SET (strings = {'note': 'view'});
    ALTER SEQUENCE "Sales".numbers INCREMENT 7;
    UPDATE orders SET note = 'first' WHERE customer = 1;
"""

QUESTIONS = [
    'SELECT * FROM "Sales"."Customers" ORDER BY id',
    "SELECT * FROM orders ORDER BY number",
    "SELECT * FROM totals ORDER BY who",
    "SELECT plus(3), plus(3, b := 4)",
    "SELECT * FROM upto(2)",
    "SELECT 1.239::price, {'At': [1], 'cost': 2.345, 'feeling': 'ok'}::place, typeof(NULL::place), typeof(NULL::pair)",
    "SELECT table_name, comment, sql FROM duckdb_tables() ORDER BY 1",
    "SELECT indexname, indexdef FROM pg_indexes ORDER BY 1",
    "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns ORDER BY 1, 2",
    "SELECT constraint_name, constraint_type FROM information_schema.table_constraints ORDER BY 1",
]


def answers(con: firndb.Connection) -> list[list[tuple[Any, ...]]]:
    return [con.sql(question).fetchall() for question in QUESTIONS]


def check_rules(con: firndb.Connection) -> None:
    for statement, sqlstate in [
        ('INSERT INTO "Sales"."Customers" ("Name") VALUES (\'ADA\')', "23505"),
        ('INSERT INTO "Sales"."Customers" ("Name", credit) VALUES (\'x\', -1)', "23514"),
        ('INSERT INTO "Sales"."Customers" ("Name") VALUES (NULL)', "23502"),
        ("INSERT INTO orders (customer) VALUES (99)", "23503"),
        ('INSERT INTO "Sales"."Customers" ("Name", feeling) VALUES (\'y\', \'angry\')', "22P02"),
    ]:
        with pytest.raises(firndb.Error) as caught:
            con.execute(statement)
        assert caught.value.sqlstate == sqlstate, statement


@pytest.mark.parametrize("closed", [True, False])
def test_everything_that_sql_defines_comes_back(path: Path, closed: bool) -> None:
    if closed:
        with opened(path) as con:
            con.execute(EVERYTHING)
    else:
        left(path, f"con.execute({EVERYTHING!r})")
    with firndb.connect() as memory:
        memory.execute(EVERYTHING)
        expected = answers(memory)
    for _ in range(3):
        with opened(path) as con:
            assert answers(con) == expected
            check_rules(con)
    with opened(path) as con:
        # The failed insertions took numbers, too; none comes twice.
        con.execute('INSERT INTO "Sales"."Customers" ("Name") VALUES (\'Edsger\') ')
        con.execute("INSERT INTO orders (customer) VALUES (1)")
        assert con.sql('SELECT max(id) > 2 FROM "Sales"."Customers"').fetchall() == [(True,)]
        assert con.sql("SELECT count(DISTINCT number) = count(*) FROM orders").fetchall() == [(True,)]
        con.execute('DELETE FROM "Sales"."Customers" WHERE id = 1')
    with opened(path) as con:
        assert con.sql("SELECT customer FROM orders").fetchall() == [(2,)]


@pytest.mark.parametrize("closed", [True, False])
def test_columns_change_over_rows_that_are_in_the_file(path: Path, closed: bool) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT i, i * 2 AS twice, 'x' || i AS s FROM range(70000) AS r(i)")
    changes = [
        "ALTER TABLE t ADD COLUMN d DECIMAL(10, 2) DEFAULT 1.5",
        "ALTER TABLE t DROP COLUMN twice",
        "ALTER TABLE t RENAME COLUMN s TO name",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE u ALTER COLUMN i SET NOT NULL",
        "ALTER TABLE u ALTER COLUMN i TYPE VARCHAR",
        "UPDATE u SET d = 2 WHERE i = '5'",
        "ALTER TABLE u DROP COLUMN d",
        "ALTER TABLE u ADD COLUMN d VARCHAR DEFAULT 'again'",
    ]
    for change in changes:
        if closed:
            with opened(path) as con:
                con.execute(change)
        else:
            left(path, f"con.execute({change!r})")
    with opened(path) as con:
        assert con.sql("SELECT * FROM u WHERE i IN ('5', '69999') ORDER BY i").fetchall() == [
            ("5", "x5", "again"),
            ("69999", "x69999", "again"),
        ]
        assert con.sql("SELECT count(*), count(DISTINCT i), count(d) FROM u").fetchall() == [(70000, 70000, 70000)]


def test_opening_and_closing_leaves_nothing_behind(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    # Its database lives as long as the connection, and takes a descriptor when the row freezes.
    del con

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    def settled(expected: tuple[int, int]) -> bool:
        # Threads of a database end a moment after it.
        until = time.monotonic() + 10
        while held() > expected and time.monotonic() < until:
            threading.Event().wait(0.01)
        return held() <= expected

    for _ in range(3):
        firndb.connect(path).close()
    before = held()
    for _ in range(60):
        firndb.connect(path).close()
    assert settled(before), (before, held())
    size = path.stat().st_size
    for _ in range(5):
        firndb.connect(path).close()
    assert path.stat().st_size <= size + 3 * 4096


def test_a_closed_database_is_one_file(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT * FROM range(1000) AS r(i)")
        assert files(path) == ["shop.firn", "shop.firn.wal"]
    assert files(path) == ["shop.firn"]


def test_a_rolled_back_transaction_leaves_nothing(path: Path) -> None:
    left(
        path,
        "con.execute('CREATE TABLE t (i INTEGER)')\n"
        "con.execute('BEGIN; INSERT INTO t VALUES (1); CREATE TABLE u (j INTEGER); ROLLBACK')\n"
        "con.execute('BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3); ROLLBACK TO s; COMMIT')\n"
        "con.execute('BEGIN; INSERT INTO t VALUES (4)')\n",
    )
    with opened(path) as con:
        assert con.sql("SELECT * FROM t").fetchall() == [(2,)]
        assert con.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'").fetchall() == [("t",)]


def test_temporary_tables_go_with_their_session(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TEMP TABLE t AS SELECT 1 AS i; CREATE TEMP SEQUENCE s; SELECT nextval('s')")
    with opened(path) as con, pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT * FROM t")


def test_sequences_do_not_repeat_after_a_crash(path: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        printed = left(
            path,
            "con.execute('CREATE SEQUENCE IF NOT EXISTS s')\n"
            "print(*[con.execute(\"SELECT nextval('s')\").fetchone()[0] for _ in range(40)], flush=True)\n",
        )
        seen += map(int, printed.split())
    assert len(set(seen)) == len(seen) == 120
    with opened(path) as con:
        last = con.execute("SELECT nextval('s')").fetchone()[0]
        assert last > max(seen)
    with opened(path) as con:
        assert con.execute("SELECT nextval('s')").fetchone() == (last + 1,), "closed, it goes on where it was"


def test_random_transactions_are_there_when_it_opens_again(path: Path) -> None:
    choice = random.Random(7)
    model: dict[int, tuple[int, str | None, Decimal | None]] = {}
    con = firndb.connect(path)
    con.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b VARCHAR, c DECIMAL(20, 3)); CREATE INDEX t_a ON t (a)")
    for step in range(150):
        con.begin()
        after = dict(model)
        for _ in range(choice.randint(1, 6)):
            key = choice.randint(0, 40)
            row = (choice.randint(0, 9), choice.choice([None, "x", "long " * 20]), choice.choice([None, Decimal("1.500")]))
            if key not in after:
                con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", [key, *row])
                after[key] = row
            elif choice.random() < 0.6:
                con.execute("UPDATE t SET a = ?, b = ? WHERE k = ?", [row[0], row[1], key])
                after[key] = (row[0], row[1], after[key][2])
            else:
                con.execute("DELETE FROM t WHERE k = ?", [key])
                del after[key]
        if choice.random() < 0.2:
            con.rollback()
        else:
            con.commit()
            model = after
        if step % 40 == 17:
            con.execute("VACUUM; CHECKPOINT")
        if step % 25 == 24:
            con.close()
            con = firndb.connect(path)
        if step % 25 == 11:
            # What a crash would leave now.
            copy = path.with_name("copy.firn")
            shutil.copy(path, copy)
            shutil.copy(f"{path}.wal", f"{copy}.wal")
            with opened(copy) as other:
                found = other.execute("SELECT * FROM t").fetchall()
                assert {k: tuple(rest) for k, *rest in found} == model
    assert {k: tuple(rest) for k, *rest in con.execute("SELECT * FROM t").fetchall()} == model
    for a in range(10):
        assert con.execute("SELECT count(*) FROM t WHERE a = ?", [a]).fetchone() == (sum(row[0] == a for row in model.values()),)
    con.close()


# Each round kills a program that moves money between accounts in threads, and prints what was committed.
TRANSFERS = """
import sys, threading, firndb
con = firndb.connect(sys.argv[1])
con.execute("CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, balance BIGINT)")
con.execute("CREATE TABLE IF NOT EXISTS journal (worker INTEGER, number INTEGER, PRIMARY KEY (worker, number))")
if not con.execute("SELECT count(*) FROM accounts").fetchone()[0]:
    con.execute("INSERT INTO accounts SELECT i, 1000 FROM range(20) AS r(i)")
con.execute("SET checkpoint_threshold = '40KB'")
start = con.execute("SELECT coalesce(max(number), 0) FROM journal").fetchone()[0]
out = threading.Lock()
def work(worker):
    import random
    choice = random.Random()
    mine = con.cursor()
    number = start
    while True:
        one, other = choice.sample(range(20), 2)
        number += 1
        try:
            mine.begin()
            mine.execute("UPDATE accounts SET balance = balance - 1 WHERE id = ?", [one])
            mine.execute("UPDATE accounts SET balance = balance + 1 WHERE id = ?", [other])
            mine.execute("INSERT INTO journal VALUES (?, ?)", [worker, number])
            mine.commit()
        except firndb.OperationalError:
            mine.rollback() if mine.in_transaction else None
            continue
        with out:
            print(worker, number, flush=True)
print("ready", flush=True)
for worker in range(8):
    threading.Thread(target=work, args=(worker,), daemon=True).start()
threading.Event().wait()
"""


def test_kill_9_loses_nothing_that_was_acknowledged(path: Path) -> None:
    choice = random.Random(11)
    acknowledged: set[tuple[int, int]] = set()
    for _ in range(int(os.environ.get("FIRNDB_KILLS", "4"))):
        writer = subprocess.Popen([sys.executable, "-c", TRANSFERS, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(choice.uniform(0.05, 0.5))
        writer.kill()
        for line in writer.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                worker, number = map(int, line.split())
                acknowledged.add((worker, number))
        writer.wait()
        with opened(path) as con:
            assert con.execute("SELECT sum(balance), count(*) FROM accounts").fetchone() == (20_000, 20)
            journal = set(con.execute("SELECT worker, number FROM journal").fetchall())
        assert acknowledged <= journal
    assert acknowledged


def test_threads_commit_in_groups(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t (worker INTEGER, i INTEGER)")

        def work(worker: int) -> None:
            mine = con.cursor()
            for i in range(50):
                mine.execute("INSERT INTO t VALUES (?, ?)", [worker, i])
            mine.close()

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with opened(path) as con:
        assert con.execute("SELECT count(*), count(DISTINCT (worker, i)) FROM t").fetchone() == (400, 400)


@pytest.mark.parametrize("synchronous", ["full", "normal", "off"])
def test_a_crash_of_the_program_loses_nothing_under_any_setting(path: Path, synchronous: str) -> None:
    left(path, f"con.execute('SET synchronous = {synchronous}; CREATE TABLE t AS SELECT 1 AS i; INSERT INTO t VALUES (2)')")
    with opened(path, config={"synchronous": synchronous}) as con:
        assert con.sql("FROM t").fetchall() == [(1,), (2,)]
        assert con.sql("SHOW synchronous").fetchall() == [(synchronous,)]


def test_a_checkpoint_empties_the_log(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT i, 'text ' || i AS s FROM range(50000) AS r(i)")
        log = path.with_name("shop.firn.wal")
        before = log.stat().st_size
        con.execute("CHECKPOINT")
        assert log.stat().st_size < 1000 < before
        con.execute("INSERT INTO t VALUES (-1, 'after')")
        assert con.sql("SELECT count(*) FROM t").fetchall() == [(50001,)]


def test_space_is_used_again(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT i, random() AS x FROM range(200000) AS r(i)")
        con.execute("CHECKPOINT")
        first = path.stat().st_size
        for _ in range(6):
            con.execute("UPDATE t SET x = x + 1")
            con.execute("CHECKPOINT")
        assert path.stat().st_size < 2.5 * first
        con.execute("DROP TABLE t")
        con.execute("CHECKPOINT; CHECKPOINT")
        assert path.stat().st_size < first / 4


# A database is opened by one process at a time.


def test_connections_of_a_process_share_one_database(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.firn"
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
        link.symlink_to(path)
        with opened(link) as other:
            other.execute("INSERT INTO t VALUES (2)")
        assert con.sql("FROM t").fetchall() == [(1,), (2,)]
    assert files(link) == ["link.firn"], "the log is beside the file, not beside the link"
    assert files(path) == ["other", "shop.firn"]


def test_another_process_is_named(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
        program = f"""
import firndb
for read_only in (False, True):
    try:
        firndb.connect({str(path)!r}, read_only=read_only)
    except firndb.Error as error:
        print(error.sqlstate, error)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("55006 ")
        assert f"{path} is in use by process {os.getpid()}" in line


def test_readers_share_a_file_and_keep_writers_out(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
    content = path.read_bytes()
    program = f"""
import firndb
with firndb.connect({str(path)!r}, read_only=True) as con:
    print(con.sql("FROM t").fetchall())
try:
    firndb.connect({str(path)!r})
except firndb.Error as error:
    print(error.sqlstate)
"""
    with opened(path, read_only=True) as con:
        assert con.sql("FROM t").fetchall() == [(1,)]
        for statement in ["INSERT INTO t VALUES (2)", "CREATE TABLE u (i INTEGER)", "DROP TABLE t"]:
            with pytest.raises(firndb.Error) as caught:
                con.execute(statement)
            assert caught.value.sqlstate == "25006"
        with pytest.raises(firndb.Error):
            con.execute("SET default_transaction_read_only = off; DELETE FROM t")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "[(1,)]\n55006\n"
        with pytest.raises(firndb.Error) as caught:
            firndb.connect(path)
        assert caught.value.sqlstate == "55006"
    assert path.read_bytes() == content
    assert files(path) == ["shop.firn"]


def test_a_reader_sees_what_a_crash_left_and_changes_nothing(path: Path) -> None:
    left(path, "con.execute('CREATE TABLE t AS SELECT 1 AS i; INSERT INTO t VALUES (2)')")
    before = {name: (path.parent / name).read_bytes() for name in files(path)}
    with opened(path, read_only=True) as con:
        assert con.sql("FROM t").fetchall() == [(1,), (2,)]
    assert {name: (path.parent / name).read_bytes() for name in files(path)} == before


def test_a_connection_does_not_work_after_a_fork(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")

        def child(pipe: Any) -> None:
            found = []
            for action in (lambda: con.execute("FROM t"), lambda: firndb.connect(path)):
                try:
                    action()
                    found.append("none")
                except firndb.Error as error:
                    found.append(f"{error.sqlstate} {error}")
            pipe.send(found)

        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
        process.start()
        used, again = ours.recv()
        process.join()
        assert used.startswith("08003")
        assert again.startswith("55006") and str(os.getpid()) in again
        con.execute("INSERT INTO t VALUES (2)")
    with opened(path) as con:
        assert con.sql("FROM t").fetchall() == [(1,), (2,)]


def test_a_connection_that_is_only_dropped_lets_the_file_go(path: Path) -> None:
    con = firndb.connect(path)
    con.execute("CREATE TABLE t AS SELECT 1 AS i")
    cursor = con.cursor()
    del con
    assert cursor.execute("FROM t").fetchall() == [(1,)]
    del cursor
    assert files(path) == ["shop.firn"]


def test_results_outlive_their_database(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT * FROM range(1000) AS r(i)")
        table = con.sql("FROM t").arrow()
    with opened(path) as con:
        con.execute("DROP TABLE t")
    assert pa.compute.sum(table["i"]).as_py() == 499_500


# What a path may be.


@pytest.mark.parametrize("name", ["with spaces.firn", "Größe ☃.firn", "no_suffix", "'quoted\"; DROP.firn"])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for spelt in (str(path), path, os.fsencode(path)):
        with opened(spelt) as con:
            con.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS i")
            assert con.sql("FROM t").fetchall() == [(1,)]


def test_a_relative_path_is_of_the_directory_when_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened("here.firn") as con:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        con.execute("CREATE TABLE t AS SELECT 1 AS i; CHECKPOINT")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["elsewhere", "here.firn"]


def refused(path: Path | str, **options: Any) -> tuple[str, str]:
    with pytest.raises(firndb.Error) as caught:
        firndb.connect(path, **options)
    return caught.value.sqlstate, str(caught.value)


def test_an_empty_file_is_a_new_database(path: Path) -> None:
    path.touch()
    with opened(path, read_only=True) as con:
        assert con.sql("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'main'").fetchall() == [(0,)]
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
    with opened(path) as con:
        assert con.sql("FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("content", [b"id,name\n1,Ada\n", b"SQLite format 3\0" + bytes(5000), os.urandom(20000), b"F"])
def test_a_file_that_is_no_database_is_not_touched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read_only in (False, True):
        sqlstate, message = refused(path, read_only=read_only)
        assert sqlstate == "42809"
        assert f"{path} is not a FirnDB database" in message
    assert path.read_bytes() == content
    assert files(path) == ["shop.firn"]


def test_a_newer_format_is_refused(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 8, 99)
    struct.pack_into("<I", content, 28, crc32c(bytes(content[:28])))
    path.write_bytes(content)
    sqlstate, message = refused(path)
    assert sqlstate == "0A000"
    assert "version 99 of the file format" in message


def crc32c(data: bytes) -> int:
    """The Castagnoli polynomial, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_a_missing_log_is_missed(path: Path) -> None:
    left(path, "con.execute('CREATE TABLE t AS SELECT 1 AS i')")
    path.with_name("shop.firn.wal").unlink()
    sqlstate, message = refused(path)
    assert sqlstate == "XX001"
    assert "shop.firn.wal is missing" in message


def test_damage_says_where(path: Path) -> None:
    with opened(path) as con:
        con.execute("SET compression = 'none'")
        con.execute("CREATE TABLE measured AS SELECT i, 'value ' || i AS reading FROM range(20000) AS r(i)")
    content = bytearray(path.read_bytes())
    content[content.index(b"value 777")] ^= 1
    path.write_bytes(content)
    sqlstate, message = refused(path)
    assert sqlstate == "XX001"
    assert 'column "reading" of an extent of table "measured"' in message


def test_integrity_check_reads_the_file_again(path: Path) -> None:
    with opened(path) as con:
        con.execute("SET compression = 'none'")
        con.execute("CREATE TABLE measured AS SELECT i, 'value ' || i AS reading FROM range(20000) AS r(i); CHECKPOINT")
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        at = path.read_bytes().index(b"value 777")
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"V")
        (message,) = con.execute("PRAGMA integrity_check").fetchall()[0]
        assert 'column "reading" of an extent of table "measured"' in message
        # What is in memory is right, and written anew where it changes.
        con.execute("UPDATE measured SET i = i + 1; CHECKPOINT")
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with firndb.connect() as con:
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    assert refused(tmp_path / "no" / "such.firn")[0] == "58P01"
    assert refused(tmp_path / "missing.firn", read_only=True)[0] == "58P01"
    assert refused(tmp_path)[0] in {"58030", "58P01"}
    assert refused("")[0] == "22023"
    (tmp_path / "dangling.firn").symlink_to(tmp_path / "gone")
    assert refused(tmp_path / "dangling.firn")[0] == "58P01"
    # A directory that even the superuser can't write to.
    assert refused("/sys/shop.firn")[0] == "42501"


def test_a_table_is_read_with_pyarrow_and_struct_alone(path: Path) -> None:
    with opened(path) as con:
        con.execute("CREATE TABLE t (id BIGINT, name VARCHAR, price DECIMAL(30, 2), day DATE, kind VARCHAR, cost DECIMAL(9, 2))")
        con.execute(
            "INSERT INTO t SELECT i, CASE WHEN i % 3 > 0 THEN 'name ' || i END, i / 4, DATE '2024-01-01' + (i % 100)::INTEGER, "
            "'kind ' || (i % 7), i % 50 FROM range(100000) AS r(i)"
        )
        con.execute("DELETE FROM t WHERE id % 10 = 7; UPDATE t SET name = 'changed' WHERE id = 5")
        expected = con.sql("SELECT id, name, day, kind, cost FROM t ORDER BY id").fetchall()
    # docs/file-format.md, in code.
    data = path.read_bytes()
    assert data[:8] == b"FIRNDB\x00\x01"
    roots = []
    for page in (1, 2):
        magic, _salt, sequence, _lsn, _chain, clean, _next = struct.unpack_from("<8sQQQIIQ", data, 4096 * page)
        segments = struct.unpack_from("<9Q", data, 4096 * page + 48)
        roots.append((sequence, magic, clean, segments))
    _sequence, magic, clean, segments = max(roots)
    assert (magic, clean) == (b"FIRNROOT", 1)

    def stream(offset: int, length: int) -> pa.Table:
        return pa.ipc.open_stream(data[offset : offset + length]).read_all()

    tables, extents = stream(*segments[0:2]), stream(*segments[3:5])
    table = {row["name"]: row for row in tables.to_pylist()}["t"]
    schema = pa.ipc.open_stream(table["schema"]).schema
    parts = [stream(one["offset"], one["length"]) for one in extents.to_pylist() if one["table"] == table["id"]]
    assert any(pa.types.is_dictionary(field.type) for part in parts for field in part.schema)
    rows = pa.concat_tables([part.cast(schema) for part in parts])
    columns = [rows[name].to_pylist() for name in ("id", "name", "day", "kind", "cost")]
    assert list(zip(*columns, strict=True)) == expected


def test_rows_are_compressed_where_that_saves_something(path: Path) -> None:
    def written(compression: str, columns: str) -> int:
        with opened(path) as con:
            con.execute(f"SET compression = '{compression}'")
            con.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(200000) AS r(i)")
            expected = con.sql("SELECT * FROM t").fetchall()
        length = path.stat().st_size
        with opened(path) as con:
            assert con.sql("SELECT * FROM t").fetchall() == expected
            assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        path.unlink()
        return length

    for columns in (
        "i AS x",
        "i % 11 AS x",
        "CASE WHEN i % 5 > 0 THEN (i % 300)::INTEGER END AS x",
        "'kind ' || (i % 1000) AS x",
        "CASE WHEN i % 2 > 0 THEN 'a much longer text of row ' || i END AS x",
        "(i % 100)::DECIMAL(10, 2) AS x",
        "DATE '1900-01-01' + (i % 40000)::INTEGER AS x",
        "(i % 3)::DOUBLE AS x",
        "i::DECIMAL(30, 3) AS x",
        "NULL::INTEGER AS x",
        "[i % 7, i] AS x",
    ):
        assert written("auto", columns) < 0.7 * written("none", columns), columns
    # Nothing is gained: it lies as it is.
    noise = "random() AS x"
    assert written("auto", noise) <= written("none", noise)


def test_the_setting_of_compression(path: Path) -> None:
    with opened(path) as con:
        assert con.sql("SHOW compression").fetchall() == [("auto",)]
        con.execute("SET compression = 'none'")
        assert con.sql("SHOW compression").fetchall() == [("none",)]
        con.execute("RESET compression")
        assert con.sql("SHOW compression").fetchall() == [("auto",)]
        with pytest.raises(firndb.Error) as caught:
            con.execute("SET compression = 'best'")
        assert caught.value.sqlstate == "22023"


def test_a_limit_on_file_sizes_ends_no_process(path: Path) -> None:
    # Python ignores SIGXFSZ; a program that does not is not ended by it either.
    printed = left(
        path,
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
con.execute("SET compression = 'none'; CREATE TABLE t (i INTEGER, s VARCHAR)")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
done, failed = 0, set()
for i in range(20):
    for statement in (f"INSERT INTO t SELECT {i}, repeat('x', 2000) || r FROM range(100) AS s(r)", 'CHECKPOINT'):
        try:
            con.execute(statement)
            done += statement != 'CHECKPOINT'
        except firndb.Error as error:
            failed.add(error.sqlstate)
for statement in (
    "COPY (SELECT repeat('x', 1000) || r FROM range(100000) AS s(r)) TO 'PATH.csv'",
    "CREATE TABLE large AS SELECT random() AS h, r FROM range(1000000) AS s(r)",
):
    try:
        con.execute(statement)
        failed.add('nothing: ' + statement)
    except firndb.Error as error:
        failed.add(error.sqlstate)
assert con.execute('SELECT count(*) FROM t').fetchone() == (100 * done,)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
con.execute("INSERT INTO t VALUES (-1, 'after'); CHECKPOINT")
print(done, sorted(failed), flush=True)
""".replace("PATH", str(path)),
    )
    done, failed = printed.split(maxsplit=1)
    assert set(ast.literal_eval(failed)) <= {"53100", "58030"}
    assert "53100" in failed
    assert 0 < int(done) < 20
    with opened(path) as con:
        assert con.execute("SELECT count(*), min(i) FROM t").fetchone() == (100 * int(done) + 1, -1)


def test_a_full_disk_is_an_error_and_work_goes_on_when_there_is_room(path: Path) -> None:
    # A limit on the size of files stands in for the disk.
    printed = left(
        path,
        """
import resource
con.execute('CREATE TABLE t (i INTEGER, s VARCHAR)')
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
done, failed = 0, set()
for i in range(400):
    try:
        con.execute("INSERT INTO t VALUES (?, repeat('x', 2000))", [i])
        done += 1
    except firndb.Error as error:
        failed.add(error.sqlstate)
assert con.execute('SELECT count(*) FROM t').fetchone() == (done,)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
con.execute("INSERT INTO t VALUES (-1, 'after')")
print(done, failed, flush=True)
""",
    )
    done, failed = printed.split(maxsplit=1)
    assert failed == "{'53100'}\n"
    assert 0 < int(done) < 400
    with opened(path) as con:
        assert con.execute("SELECT count(*), min(i) FROM t").fetchone() == (int(done) + 1, -1)
