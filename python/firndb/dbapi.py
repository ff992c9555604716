"""Module attributes, type objects and constructors of PEP 249."""

from __future__ import annotations

import datetime
import time

apilevel = "2.0"
#: Threads may share the module and connections.
threadsafety = 2
#: ``?``; ``$1`` and ``$name`` work too.
paramstyle = "qmark"


class TypeObject:
    """A group of SQL types. Equal to the ``type_code`` of every column whose type is in it."""

    __slots__ = ("_names",)

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._names == other._names
        if isinstance(other, str):
            return other.partition("(")[0].strip() in self._names
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"TypeObject({', '.join(sorted(self._names))})"


STRING = TypeObject("VARCHAR", "CHAR", "TEXT", "JSON", "UUID")
BINARY = TypeObject("BLOB", "BYTEA")
NUMBER = TypeObject(
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "REAL",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
)
DATETIME = TypeObject(
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP WITH TIME ZONE",
    "INTERVAL",
)
ROWID = TypeObject()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since the epoch."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since the epoch."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local timestamp of a time in seconds since the epoch."""
    return Timestamp(*time.localtime(ticks)[:6])
