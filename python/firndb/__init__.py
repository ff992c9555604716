"""FirnDB: an embedded SQL database whose tables are Apache Arrow.

>>> import firndb
>>> con = firndb.connect()
>>> con.execute("CREATE TABLE t AS SELECT range AS i FROM range(3) AS r(range)").rowcount
3
>>> con.sql("SELECT sum(i) AS total FROM t").fetchall()
[(Decimal('3'),)]

The module follows PEP 249 (DB-API 2.0): a connection is its own cursor, and ``con.cursor()`` is one more session of the
same database. Statements commit by themselves unless they stand between BEGIN and COMMIT (``con.transaction()``).
"""

from firndb._firndb import __version__
from firndb.column import Column
from firndb.connection import Connection, connect
from firndb.dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    paramstyle,
    threadsafety,
)
from firndb.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from firndb.relation import Relation

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Column",
    "Connection",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Relation",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
