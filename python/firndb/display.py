"""Relations as tables to look at: boxes in a terminal, HTML in a notebook."""

from __future__ import annotations

import html
import shutil
import unicodedata
from typing import Any

#: Characters of a value that are shown.
WIDEST = 48

_RIGHT = ("INT", "DECIMAL", "DOUBLE", "REAL", "FLOAT", "HUGEINT")


def text_table(names: list[str], types: list[str], rows: list[tuple[Any, ...]], total: int | None) -> str:
    """The rows in a box that fits the terminal; columns in the middle give way."""
    cells = [[_cell(value) for value in row] for row in rows]
    columns = [[_cell(name), kind, *(row[i] for row in cells)] for i, (name, kind) in enumerate(zip(names, types, strict=True))]
    widths = [max(map(_width, column)) for column in columns]
    shown = _fitting(widths, shutil.get_terminal_size((120, 24)).columns)
    right = [_is_number(kind) for kind in types]

    def line(index: int) -> str:
        return (
            "│"
            + "│".join(" … " if i is None else f" {_pad(columns[i][index], widths[i], right[i] and index > 1)} " for i in shown)
            + "│"
        )

    def rule(left: str, cross: str, end: str) -> str:
        return left + cross.join("─" * (3 if i is None else widths[i] + 2) for i in shown) + end

    lines = [rule("┌", "┬", "┐"), line(0), line(1), rule("├", "┼", "┤")]
    lines += [line(index) for index in range(2, len(rows) + 2)]
    lines += [rule("└", "┴", "┘"), _footer(len(rows), total, len(names))]
    return "\n".join(lines)


def html_table(names: list[str], types: list[str], rows: list[tuple[Any, ...]], total: int | None) -> str:
    """The rows as an HTML table."""
    head = "".join(
        f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>" for name, kind in zip(names, types, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {"right" if _is_number(kind) else "left"}">'
            f"{'<i>NULL</i>' if value is None else html.escape(_cell(value))}</td>"
            for value, kind in zip(row, types, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    footer = html.escape(_footer(len(rows), total, len(names)))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{footer}</p>"


def _is_number(kind: str) -> bool:
    return "[" not in kind and not kind.startswith(("STRUCT", "MAP", "INTERVAL")) and any(part in kind for part in _RIGHT)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        text = "\\x" + value.hex()
    else:
        text = str(value)
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[: WIDEST + 1])
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _width(text: str) -> int:
    """Places that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks


def _fitting(widths: list[int], terminal: int) -> list[int | None]:
    """Positions of the columns to show, with None where some are left out; the first and the last stay."""
    everything: list[int | None] = list(range(len(widths)))
    if sum(width + 3 for width in widths) + 1 <= terminal:
        return everything
    room = terminal - 5
    left: list[int | None] = []
    right: list[int | None] = []
    first, last = 0, len(widths) - 1
    while first <= last:
        at_left = len(left) <= len(right)
        position = first if at_left else last
        room -= widths[position] + 3
        if room < 0 and left:
            break
        if at_left:
            left.append(position)
            first += 1
        else:
            right.insert(0, position)
            last -= 1
    return everything if first > last else [*left, None, *right]


def _footer(shown: int, total: int | None, columns: int) -> str:
    if total is None:
        count = f"the first {shown:,} rows"
    elif total > shown:
        count = f"{shown:,} of {total:,} rows"
    else:
        count = "1 row" if total == 1 else f"{total:,} rows"
    return f"{count}, {'1 column' if columns == 1 else f'{columns} columns'}"
