"""Connections."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from firndb import _firndb
from firndb._firndb import NativeDatabase
from firndb.exceptions import NotSupportedError, ProgrammingError
from firndb.frames import as_stream
from firndb.relation import Relation, describe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from firndb.frames import Frame, Parameters
    from firndb.relation import Description

#: Isolation levels as SQL names them. PostgreSQL's REPEATABLE READ is snapshot isolation.
ISOLATION = {
    "snapshot": "REPEATABLE READ",
    "repeatable read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
    "read committed": "READ COMMITTED",
}


def connect(
    path: str | os.PathLike[str] = ":memory:",
    *,
    read_only: bool = False,
    config: Mapping[str, Any] | None = None,
) -> Connection:
    """Opens a database and returns a connection to it.

    `path`
        The database file, which is made if it is not there: all that is committed lasts. Connections of a process to one file
        share one database; another process can open it when the last of them is closed. ``":memory:"``: a new database in
        memory, that goes with its last connection.
    `read_only`
        Opens a file without writing to it. Other processes may read it, too, but nobody writes it meanwhile.
    `config`
        Settings (``SET name = value``), for instance ``{"threads": 4, "memory_limit": "4GB"}``. ``progress_bar`` (bool) says
        whether long statements show their progress in a terminal or notebook.
    """
    try:
        name = os.fspath(path)
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ProgrammingError(f"no file can be called {path!r}", sqlstate="22023") from None
    except TypeError:
        raise ProgrammingError(f"a path must be a str or path, not {type(path).__name__}", sqlstate="22023") from None
    in_memory = name in (":memory:", b":memory:")
    if read_only and in_memory:
        raise NotSupportedError("a database in memory cannot be read-only", sqlstate="0A000")
    if config is not None and not isinstance(config, Mapping):
        raise ProgrammingError(f"config must be a mapping, not {type(config).__name__}", sqlstate="22023")
    settings = dict(config or {})
    shown = settings.pop("progress_bar", True)
    limits = {
        setting: settings.pop(setting)
        for setting, kind in (("memory_limit", int), ("threads", int), ("temp_directory", (str, os.PathLike)))
        if isinstance(settings.get(setting), kind) and settings[setting] is not True
    }
    if any(isinstance(limit, int) and limit <= 0 for limit in limits.values()):
        raise ProgrammingError("memory_limit and threads must be positive", sqlstate="22023")
    try:
        database = NativeDatabase(None if in_memory else os.fsdecode(name), read_only=read_only, **limits)
    except OverflowError:
        raise ProgrammingError("memory_limit and threads must be below 2^64", sqlstate="22023") from None
    except UnicodeEncodeError:
        raise ProgrammingError(f"the path {name!r} cannot be encoded for the file system", sqlstate="22021") from None
    connection = Connection(database)
    connection.progress_bar = bool(shown)
    for setting, value in settings.items():
        if not isinstance(setting, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", setting):
            raise ProgrammingError(f"{setting!r} is no name of a setting", sqlstate="22023")
        connection._run(f"SET {setting} = {_literal(value)}")
    return connection


def _literal(value: object) -> str:
    """A setting's value as SQL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def _quoted(name: str) -> str:
    """A possibly qualified name with its parts quoted: ``main.my_table`` → ``"main"."my_table"``."""
    if not isinstance(name, str):
        raise ProgrammingError(f"the name of a table must be a str, not {type(name).__name__}", sqlstate="22023")
    parts = re.findall(r'"(?:[^"]|"")*"|[^."]+', name)
    if not parts or ".".join(parts) != name:
        raise ProgrammingError(f"{name!r} is no name of a table", sqlstate="42602")
    return ".".join(part if part.startswith('"') else f'"{part}"' for part in parts)


class Connection(_firndb.Connection):
    """A connection to a database: an independent session, and by PEP 249 its own cursor.

    Statements commit by themselves unless they stand between :meth:`begin` and :meth:`commit` (or in :meth:`transaction`).
    A connection may be used from several threads, which then wait for each other and share one result; threads that work
    independently take a :meth:`cursor` each. After ``fork`` a connection refuses to work in the child.
    """

    __slots__ = ()

    # Statements: execute and executemany are the native class's.

    def sql(self, query: str, parameters: Parameters = None) -> Relation:
        """A relation over a query, run when its rows are wanted.

        Unknown names and wrong types are errors here already. What is no query (INSERT, CREATE …) runs at once; the
        result is then the rows that it returns, and None if it returns none.
        """
        rows = self._relation(query, parameters)
        # Declared as a relation, as whoever uses the result gave a statement with rows.
        return cast("Relation", None if rows is None else Relation(rows))

    def table(self, name: str) -> Relation:
        """A whole table, view or data frame of the caller as a relation."""
        rows = self._relation(f"SELECT * FROM {_quoted(name)}")
        assert rows is not None
        return Relation(rows)

    def cursor(self) -> Connection:
        """One more session of the same database: its own transactions and results. It is closed with this connection."""
        return Connection(self)

    # Rows of the last statement.

    @property
    def description(self) -> list[Description] | None:
        """Name, type and five more items (PEP 249) of the columns of the last result; None without one."""
        columns = self._columns()
        return None if columns is None else describe(columns)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next `size` rows of the last result; fewer at its end."""
        return self._fetch_rows(self.arraysize if size is None else size)

    def df(self, *, dtypes: str = "arrow", decimals: str = "float") -> pd.DataFrame:
        """What is left of the last result as a pandas frame; see :meth:`Relation.df`."""
        return self._result().df(dtypes=dtypes, decimals=decimals)

    def pl(self) -> pl.DataFrame:
        """What is left of the last result as a Polars frame."""
        return self._result().pl()

    def arrow(self, *, native: bool = False) -> pa.Table:
        """What is left of the last result as a ``pyarrow.Table``; see :meth:`Relation.arrow`."""
        return self._result().arrow(native=native)

    to_arrow_table = arrow

    def fetchnumpy(self, *, decimals: str = "float") -> dict[str, npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]]:
        """What is left of the last result as NumPy arrays by column; see :meth:`Relation.fetchnumpy`."""
        return self._result().fetchnumpy(decimals=decimals)

    def fetch_record_batch(self, *, native: bool = False) -> pa.RecordBatchReader:
        """What is left of the last result as a stream of record batches."""
        return self._result().fetch_record_batch(native=native)

    def _result(self) -> Relation:
        return Relation(self._take_result())

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing (PEP 249)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing (PEP 249)."""

    # Data in.

    def append(self, table: str, frame: Frame, *, by_name: bool | None = None, create: bool = False) -> int:
        """Appends the rows of a frame to a table and returns their number; all or none.

        `frame`
            A pandas or Polars frame, Arrow data (anything with ``__arrow_c_stream__``), a relation, a dict of NumPy arrays or
            lists, or a list of dicts.
        `by_name`
            Whether columns are matched by their names, so that columns that are not named get their defaults, or by their order.
            By default they are matched by their order, and it is an error (42804) if a column of the frame has the name of
            another column of the table than the one in its place; ``False`` takes the order whatever the names are.
        `create`
            Makes the table, with the frame's columns, if there is none of that name.
        """
        for option, given in (("by_name", by_name), ("create", create)):
            if not isinstance(given, bool) and not (given is None and option == "by_name"):
                raise ProgrammingError(f"{option} must be a bool, not {type(given).__name__}", sqlstate="22023")
        rows = self._stream(frame)
        if not create:
            return self._append_stream(table, rows, by_name)
        rows = _firndb.hold(rows)
        if self.in_transaction:
            return self._create_and_append(table, rows, by_name)
        with self.transaction():
            return self._create_and_append(table, rows, by_name)

    def _create_and_append(self, table: str, rows: _firndb.ColumnTable, by_name: bool | None) -> int:
        frame = "__firndb_frame"
        self._run_over(f"CREATE TABLE IF NOT EXISTS {_quoted(table)} AS SELECT * FROM {frame} LIMIT 0", frame, rows)
        return self._append_stream(table, rows, by_name)

    def register(self, name: str, frame: Frame) -> Connection:
        """Makes a frame a view of this connection, scanned where it lies, replacing one of that name."""
        self._register_stream(name, self._stream(frame, lenient=True))
        return self

    def unregister(self, name: str) -> Connection:
        """Takes a registered frame away; without one of that name nothing happens."""
        self._unregister_name(name)
        return self

    @staticmethod
    def _stream(frame: Frame, *, lenient: bool = False) -> _firndb.ArrowStream:
        stream = as_stream(frame, lenient=lenient)
        if stream is None:
            raise ProgrammingError(
                f"a {type(frame).__name__} is no table",
                sqlstate="22023",
                hint="Pass a pandas or Polars frame, Arrow data, a dict of arrays or a list of dicts.",
            )
        return stream

    # Transactions.

    def begin(self, isolation: str | None = None) -> Connection:
        """Begins a transaction: "snapshot" (the default) or "serializable"."""
        if isolation is None:
            self._run("BEGIN")
        elif isinstance(isolation, str) and isolation.lower() in ISOLATION:
            self._run(f"BEGIN ISOLATION LEVEL {ISOLATION[isolation.lower()]}")
        else:
            raise ProgrammingError(
                f"unknown isolation level {isolation!r}", sqlstate="22023", hint=f"There are {', '.join(map(repr, ISOLATION))}."
            )
        return self

    def commit(self) -> Connection:
        """Commits the open transaction; without one there is nothing to do."""
        if self.in_transaction:
            self._run("COMMIT")
        return self

    def rollback(self) -> Connection:
        """Rolls the open transaction back; without one there is nothing to do."""
        if self.in_transaction:
            self._run("ROLLBACK")
        return self

    @contextmanager
    def transaction(self, isolation: str | None = None) -> Iterator[Connection]:
        """A transaction as a context: commits at its end, rolls back on an exception.

        A conflict with another transaction (``sqlstate`` "40001") is raised; trying again is the caller's.
        """
        self.begin(isolation)
        try:
            yield self
        except BaseException:
            if not self.closed and self.in_transaction:
                self._run("ROLLBACK")
            raise
        if not self.closed and self.in_transaction:
            try:
                self._run("COMMIT")
            except BaseException:
                if not self.closed and self.in_transaction:
                    self._run("ROLLBACK")
                raise

    # The connection as a context closes itself.

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<firndb.Connection{' (closed)' if self.closed else ''}>"

    # PEP 249's optional extension: the exceptions as attributes of the connection.

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
