"""What an error says."""

from __future__ import annotations

import io

import firndb
import pytest
from firndb.progress import ProgressBar


@pytest.mark.parametrize(
    ("sql", "kind", "sqlstate"),
    [
        ("SELEC 1", firndb.ProgrammingError, "42601"),
        ("SELECT nothing", firndb.ProgrammingError, "42703"),
        ("SELECT * FROM nowhere", firndb.ProgrammingError, "42P01"),
        ("SELECT no_such_function(1)", firndb.ProgrammingError, "42883"),
        ("SELECT 1 / 0", firndb.DataError, "22012"),
        ("SELECT 9223372036854775807 + 1", firndb.DataError, "22003"),
        ("SELECT 'x'::INTEGER", firndb.DataError, "22P02"),
        ("CREATE TABLE t (i INTEGER); CREATE TABLE t (i INTEGER)", firndb.ProgrammingError, "42P07"),
        ("CREATE TABLE n (i INTEGER NOT NULL); INSERT INTO n VALUES (NULL)", firndb.IntegrityError, "23502"),
        ("CREATE TABLE u (i INTEGER PRIMARY KEY); INSERT INTO u VALUES (1), (1)", firndb.IntegrityError, "23505"),
        ("ROLLBACK TO nowhere", firndb.Error, None),
    ],
)
def test_classes_and_states(con: firndb.Connection, sql: str, kind: type[firndb.Error], sqlstate: str | None) -> None:
    with pytest.raises(kind) as raised:
        con.execute(sql).fetchall()
    assert raised.value.sqlstate is not None
    assert sqlstate is None or raised.value.sqlstate == sqlstate
    assert raised.value.message


def test_a_near_name_is_hinted_at(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE orders (customer VARCHAR)")
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.execute("SELECT custommer FROM orders")
    assert raised.value.hint is not None and "customer" in raised.value.hint
    assert "HINT: " in str(raised.value)


def test_syntax_errors_have_a_position(con: firndb.Connection) -> None:
    sql = "SELECT 1,\n  FROM WHERE"
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.execute(sql)
    assert raised.value.position is not None and 0 <= raised.value.position <= len(sql)
    assert "LINE 2:" in str(raised.value)


def test_deep_nesting_is_an_error_and_no_crash(con: firndb.Connection) -> None:
    with pytest.raises(firndb.Error) as raised:
        con.execute("SELECT " + "(" * 100_000 + "1" + ")" * 100_000)
    assert raised.value.sqlstate in ("54001", "54000", "42601")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("NOT ", ""),
        ("NOT (", ")"),
        ("CASE WHEN true THEN ", " END"),
        ("(", ")"),
        ("INTERVAL (", ") DAY"),
        ("- ", ""),
        ("abs(", ")"),
    ],
)
def test_every_kind_of_nesting_is_called_so(con: firndb.Connection, before: str, after: str) -> None:
    with pytest.raises(firndb.Error, match="nested too deeply") as raised:
        con.execute("SELECT " + before * 5_000 + "1" + after * 5_000)
    assert raised.value.sqlstate == "54001"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {n}",
        "SELECT 1e{n}",
        "SELECT '{n}'::INTEGER",
        "SELECT '{x}'::DATE",
        "SELECT '{w}'::INTEGER",
        "SET threads = '{x}'",
        "SELECT 1 LIMIT {n}",
    ],
)
def test_long_values_are_not_repeated_whole(con: firndb.Connection, sql: str) -> None:
    with pytest.raises(firndb.Error) as raised:
        con.execute(sql.format(n="9" * 10_000, x="x" * 10_000, w="ab " * 10_000))
    assert len(str(raised.value)) < 1_000
    assert "..." in str(raised.value)


class Terminal(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def test_the_progress_bar_is_drawn_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bar = ProgressBar()
    bar.update(0.5, 12345, 2.0)
    assert " 50% " in terminal.getvalue() and "12,345 rows" in terminal.getvalue()
    bar.clear()
    assert terminal.getvalue().endswith(" \r")


def test_no_progress_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = io.StringIO()
    monkeypatch.setattr("sys.stderr", silent)
    bar = ProgressBar()
    bar.update(0.5, 1, 2.0)
    bar.clear()
    assert silent.getvalue() == ""
