"""Wrong answers that are easy to give."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from decimal import Decimal

import firndb
import pytest


@pytest.fixture
def con() -> Iterator[firndb.Connection]:
    connection = firndb.connect()
    connection.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    connection.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL), (NULL, 'z')")
    yield connection
    connection.close()


def test_delete_where_in_subquery_deletes_only_those(con: firndb.Connection) -> None:
    assert con.execute("DELETE FROM t WHERE a IN (SELECT 2)").rowcount == 1
    assert con.execute("DELETE FROM t WHERE a IN (SELECT a FROM t WHERE a > 100)").rowcount == 0
    assert con.execute("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t s WHERE s.a = t.a + 2)").rowcount == 1
    assert con.execute("SELECT a FROM t ORDER BY a NULLS LAST").fetchall() == [(3,), (None,)]


def test_not_in_with_null_is_never_true(con: firndb.Connection) -> None:
    assert con.execute("SELECT count(*) FROM t WHERE 7 NOT IN (SELECT a FROM t)").fetchone() == (0,)
    assert con.execute("DELETE FROM t WHERE a NOT IN (SELECT a FROM t WHERE a IS NULL)").rowcount == 0
    assert con.execute("SELECT 1 NOT IN (2, NULL), 1 IN (1, NULL), NULL IN (1)").fetchone() == (None, True, None)


def test_update_from_updates_each_row_once(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE u (a INTEGER, v VARCHAR)")
    con.execute("INSERT INTO u VALUES (1, 'one'), (1, 'uno'), (2, 'two')")
    assert con.execute("UPDATE t SET b = u.v FROM u WHERE u.a = t.a").rowcount == 2
    rows = con.execute("SELECT a, b FROM t ORDER BY a NULLS LAST").fetchall()
    assert rows[0][1] in ("one", "uno") and rows[1:] == [(2, "two"), (3, None), (None, "z")]


def test_insert_from_itself_doubles(con: firndb.Connection) -> None:
    for expected in (8, 16, 32, 64):
        con.execute("INSERT INTO t SELECT * FROM t")
        assert con.execute("SELECT count(*) FROM t").fetchone() == (expected,)


def test_decimals_keep_their_fraction(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE d (price DECIMAL(15,2), discount DECIMAL(15,2))")
    con.execute("INSERT INTO d VALUES (100.00, 0.05)")
    row = con.execute("SELECT 1 - discount, price * (1 - discount), sum(price * (1 - discount)) OVER () FROM d").fetchone()
    assert [str(value) for value in row] == ["0.95", "95.0000", "95.0000"]
    assert con.execute("SELECT CASE WHEN discount > 0 THEN discount ELSE 0 END, coalesce(discount, 0) FROM d").fetchone() == (
        Decimal("0.05"),
        Decimal("0.05"),
    )
    assert con.execute("SELECT discount FROM d UNION ALL SELECT 1").fetchall() == [(Decimal("0.05"),), (Decimal("1.00"),)]


def test_sum_does_not_wrap(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE s (i BIGINT)")
    con.execute("INSERT INTO s VALUES (9223372036854775807), (9223372036854775807)")
    assert con.execute("SELECT sum(i) FROM s").fetchone()[0] == 2 * 9223372036854775807
    with pytest.raises(firndb.DataError):
        con.execute("SELECT i + 1 FROM s").fetchall()
    with pytest.raises(firndb.DataError):
        con.execute("SELECT 9223372036854775807::BIGINT * 2::BIGINT").fetchall()


def test_counts_see_the_transactions_own_changes(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE big AS SELECT value AS i FROM range(200000) AS r(value)")
    con.execute("BEGIN")
    con.execute("DELETE FROM big WHERE i % 2 = 0")
    con.execute("INSERT INTO big VALUES (-1)")
    assert con.execute("SELECT count(*), min(i), max(i) FROM big").fetchone() == (100_001, -1, 199_999)
    other = con.cursor()
    assert other.execute("SELECT count(*), min(i), max(i) FROM big").fetchone() == (200_000, 0, 199_999)
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*), min(i), max(i) FROM big").fetchone() == (200_000, 0, 199_999)


def test_two_columns_of_one_table_come_in_the_same_order(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE p AS SELECT value AS a, value * 7 AS b FROM range(300000) AS r(value)")
    con.execute("UPDATE p SET b = b WHERE a % 1000 = 0")
    a = con.sql("SELECT a FROM p WHERE b % 2 = 0").fetchnumpy()["a"]
    b = con.sql("SELECT b FROM p WHERE b % 2 = 0").fetchnumpy()["b"]
    assert (a * 7 == b).all() and (a[1:] > a[:-1]).all()
    con.execute("DELETE FROM p WHERE a % 777 = 0")
    with con.transaction():  # between snapshots rows may move into the gaps
        a = con.sql("SELECT a FROM p WHERE b % 2 = 0").fetchnumpy()["a"]
        b = con.sql("SELECT b FROM p WHERE b % 2 = 0").fetchnumpy()["b"]
        first = con.execute("SELECT a FROM p LIMIT 3").fetchall()
        assert con.execute("SELECT a, b FROM p LIMIT 3").fetchall() == [(x, 7 * x) for (x,) in first]
    assert (a * 7 == b).all() and len(a) == 149_806


def test_negative_zero_is_zero_and_nan_is_one_value(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE f (x DOUBLE)")
    con.execute("INSERT INTO f VALUES (0.0), (-0.0), ('NaN'), ('NaN'), (1.0)")
    groups = con.execute("SELECT x, count(*) FROM f GROUP BY x ORDER BY x").fetchall()
    assert [count for _, count in groups] == [2, 1, 2]
    assert groups[0][0] == 0 and math.isnan(groups[2][0])
    assert con.execute("SELECT count(DISTINCT x) FROM f").fetchone() == (3,)
    assert con.execute("SELECT count(*) FROM f a JOIN f b ON a.x = b.x").fetchone() == (9,)
    assert con.execute("SELECT count(*) FROM f WHERE x = 0").fetchone() == (2,)
    assert math.isnan(con.execute("SELECT max(x) FROM f").fetchone()[0])


def test_empty_groups(con: firndb.Connection) -> None:
    assert con.execute("SELECT count(*), count(a), sum(a), min(a), avg(a) FROM t WHERE a > 100").fetchone() == (
        0,
        0,
        None,
        None,
        None,
    )
    assert con.execute("SELECT b, count(*) FROM t WHERE a > 100 GROUP BY b").fetchall() == []
    assert con.execute("SELECT sum(a) FILTER (WHERE a > 100), count(*) FILTER (WHERE a > 100) FROM t").fetchone() == (None, 0)


def test_random_transfers_of_eight_threads_keep_the_total() -> None:
    con = firndb.connect()
    con.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT)")
    con.executemany("INSERT INTO account VALUES (?, ?)", [(i, 100) for i in range(50)])
    wrong: list[object] = []

    def transfer(seed: int) -> None:
        session = con.cursor()
        for step in range(40):
            source, target = (seed * 7 + step) % 50, (seed * 13 + step * 3 + 1) % 50
            try:
                session.execute("BEGIN")
                session.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", [source])
                session.execute("UPDATE account SET balance = balance + 1 WHERE id = ?", [target])
                session.execute("COMMIT")
            except firndb.OperationalError as error:
                session.execute("ROLLBACK")
                if error.sqlstate != "40001":
                    wrong.append(error)
            total = session.execute("SELECT sum(balance) FROM account").fetchone()[0]
            if total != 5_000:
                wrong.append(total)

    threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert con.execute("SELECT sum(balance), count(*) FROM account").fetchone() == (5_000, 50)
