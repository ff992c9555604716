"""Files that programs and people leave behind: what a reader must not guess wrongly."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import firndb
import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(con: firndb.Connection, name: str) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
    relation = con.sql(f"SELECT * FROM read_csv('{name}')")
    return relation.columns, relation.types, relation.fetchall()


def test_columns_of_several_csv_files_go_by_their_names(con: firndb.Connection, folder: Path) -> None:
    (folder / "1.csv").write_text("a,b\nx,1\n")
    (folder / "2.csv").write_text("b,A\n2,y\n")
    (folder / "3.csv").write_text("a,b\nz,3\n")
    assert read(con, "*.csv")[2] == [("x", 1), ("y", 2), ("z", 3)]
    assert con.execute("SELECT b FROM read_csv(['1.csv', '2.csv'])").fetchall() == [(1,), (2,)]
    assert con.execute("SELECT a, b FROM read_csv(['2.csv', '1.csv'])").fetchall() == [("y", 2), ("x", 1)]
    assert con.execute("SELECT * FROM read_csv('*.csv', names=['p', 'q'], all_varchar=true)").fetchall()[1] == ("2", "y")


@pytest.mark.parametrize(
    ("header", "message"), [("a,c\n", 'no column "b"'), ("a,b,c\n", 'a column "c"'), ("a\n", 'no column "b"')]
)
def test_csv_files_with_other_columns_are_refused(con: firndb.Connection, folder: Path, header: str, message: str) -> None:
    (folder / "1.csv").write_text("a,b\nx,1\n")
    (folder / "2.csv").write_text(header + ",".join("1" * len(header.split(","))) + "\n")
    with pytest.raises(firndb.Error, match=message):
        read(con, "*.csv")


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,a,b\n1,2,3\n", ["a", "a_1", "b"], [(1, 2, 3)]),
        ("a,A\n1,2\n", ["a", "A_1"], [(1, 2)]),
        ("a,,c\n1,2,3\n", ["a", "column1", "c"], [(1, 2, 3)]),
        ("x,x\ny,z\n", ["column0", "column1"], [("x", "x"), ("y", "z")]),
        (",\n1,2\n", ["column0", "column1"], [(None, None), (1, 2)]),
    ],
)
def test_headers_with_doubled_and_missing_names(
    con: firndb.Connection, folder: Path, text: str, names: list[str], rows: list[tuple[Any, ...]]
) -> None:
    (folder / "h.csv").write_text(text)
    columns, _, found = read(con, "h.csv")
    assert (columns, found) == (names, rows)


def test_codes_keep_their_zeros(con: firndb.Connection, folder: Path) -> None:
    (folder / "zip.csv").write_text("zip,n,t,d\n02139,0,00:10:00,0001-02-03\n10001,-1,01:00:00,2024-01-01\n")
    _, types, rows = read(con, "zip.csv")
    assert types == ["VARCHAR", "BIGINT", "TIME", "DATE"]
    assert [row[:2] for row in rows] == [("02139", 0), ("10001", -1)]
    (folder / "bare.csv").write_text("02139\n02140\n")
    assert read(con, "bare.csv")[2] == [("02139",), ("02140",)]


def test_integers_beyond_64_bits_keep_their_digits(con: firndb.Connection, folder: Path) -> None:
    (folder / "big.csv").write_text("a\n18446744073709551616\n5\n")
    assert read(con, "big.csv")[1:] == (["DECIMAL(38,0)"], [(Decimal("18446744073709551616"),), (Decimal(5),)])
    (folder / "bigger.csv").write_text("a\n" + "9" * 39 + "\n")
    assert read(con, "bigger.csv")[1] == ["DOUBLE"]


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": 2}\n', '[{"a": 1}, {"a": 2}]'])
def test_a_byte_order_mark_is_no_json(con: firndb.Connection, folder: Path, text: str) -> None:
    (folder / "mark.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert con.execute("SELECT a FROM read_json('mark.json')").fetchall() == [(1,), (2,)]
