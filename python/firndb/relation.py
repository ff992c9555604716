"""Relations: results that are run when their rows are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from firndb import display
from firndb.arrays import Arrays
from firndb.column import Column, exact, filled
from firndb.exceptions import InterfaceError, ProgrammingError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from firndb._firndb import ColumnInfo, NativeRelation

#: Name, type, display size, internal size, precision, scale, nullability (PEP 249).
Description = tuple[str, str, None, None, "int | None", "int | None", bool]


def describe(columns: list[ColumnInfo]) -> list[Description]:
    """PEP 249's description of columns."""
    return [(name, kind, None, None, *_precision(kind), nullable) for name, kind, nullable in columns]


def _precision(kind: str) -> tuple[int | None, int | None]:
    if kind.startswith("DECIMAL(") and kind.endswith(")"):
        precision, _, scale = kind[8:-1].partition(",")
        return int(precision), int(scale or 0)
    return None, None


def unique(names: list[str]) -> list[str]:
    """Names made different by numbers, as a dict needs them: a, a → a, a_1."""
    taken, result = set(names), []
    seen: set[str] = set()
    for name in names:
        candidate, number = name, 0
        while candidate in seen or (number and candidate in taken):
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        result.append(candidate)
    return result


class _Form:
    """A relation's rows as an Arrow stream of a certain form."""

    def __init__(self, rows: NativeRelation, form: str) -> None:
        self._rows, self._form = rows, form

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema, self._form)


class Relation:
    """The rows of a query, run when they are first wanted.

    Then the relation takes its snapshot, and keeps what it read: every later reader sees the same rows. Over columns of a
    loaded table that costs no memory, they are views. :meth:`fetch_record_batch` alone reads without keeping.

    Relations are Arrow tables to every library that speaks the Arrow PyCapsule protocol, and can be named in other queries.
    """

    __slots__ = ("__weakref__", "_rows")

    def __init__(self, rows: NativeRelation) -> None:
        self._rows = rows

    # What it is.

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _, _ in self._rows.columns()]

    @property
    def types(self) -> list[str]:
        """SQL types of the columns."""
        return [kind for _, kind, _ in self._rows.columns()]

    @property
    def description(self) -> list[Description]:
        """Name, type and five more items of each column, as PEP 249 has them."""
        return describe(self._rows.columns())

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns. Reads the relation."""
        return len(self), len(self._rows.columns())

    def __len__(self) -> int:
        """Number of rows. Reads the relation."""
        return len(self._rows)

    def __getitem__(self, key: str | int) -> Column:
        """A column by name (as written, or ignoring case where that is no other) or position."""
        columns = self._rows.columns()
        names = [name for name, _, _ in columns]
        if isinstance(key, str):
            matches = [i for i, name in enumerate(names) if name == key]
            matches = matches or [i for i, name in enumerate(names) if name.lower() == key.lower()]
            if len(matches) != 1:
                reason = "does not exist" if not matches else "is ambiguous"
                raise ProgrammingError(f'column "{key}" {reason}', sqlstate="42702" if matches else "42703")
            position = matches[0]
        else:
            position = range(len(names))[key]
        return Column(self._rows, position, names[position], columns[position][1])

    # Rows.

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last. :meth:`fetchall` begins anew."""
        return self._rows.fetchone()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows; fewer, and then none, at the end."""
        return self._rows.fetchmany(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Every row that :meth:`fetchone` and :meth:`fetchmany` left; then fetches begin anew with the first row.

        So by itself it returns every row, however often it is called.
        """
        return self._rows.fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Every row from the first, whatever was fetched."""
        return iter(self._rows)

    # Frames.

    def arrow(self, *, native: bool = False) -> pa.Table:
        """A ``pyarrow.Table`` over the same memory.

        Types are those that pyarrow computes with (``string``, ``decimal128``). With `native` they are as stored:
        ``string_view``, ``decimal64``.
        """
        import pyarrow

        return pyarrow.table(_Form(self._rows, "native" if native else "consumer"))

    to_arrow_table = arrow

    def df(self, *, dtypes: str = "arrow", decimals: str = "float") -> pd.DataFrame:
        """A pandas frame.

        `dtypes`
            "arrow": Arrow-backed columns over the same memory, exact. "numpy": classic columns; missing integers become NaN.
        `decimals`
            With "numpy": "float", or "object" for exact ``decimal.Decimal``.
        """
        import pandas

        if dtypes == "arrow":
            from pyarrow import types

            return self.arrow().to_pandas(
                types_mapper=lambda kind: None if types.is_dictionary(kind) else pandas.ArrowDtype(kind)
            )
        if dtypes != "numpy":
            raise ProgrammingError(f'dtypes must be "arrow" or "numpy", not {dtypes!r}', sqlstate="22023")
        names = self.columns
        arrays = self._rows.arrays(None, exact(decimals))
        frame = pandas.DataFrame({i: filled(values, mask) for i, (values, mask) in enumerate(arrays)}, copy=False)
        for i, kind in enumerate(self.types):
            if kind.startswith("TIMESTAMP") and kind.endswith("WITH TIME ZONE"):
                frame[i] = frame[i].dt.tz_localize("UTC").dt.tz_convert(self._zone(i))
        frame.columns = pandas.Index(names)
        return frame

    def _zone(self, position: int) -> str:
        """The time zone in which a column shows its instants."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            return "UTC"
        return str(pyarrow.schema(self._rows).field(position).type.tz)

    def pl(self) -> pl.DataFrame:
        """A Polars frame over the same memory. Intervals are durations there; a month counts 30 days."""
        import polars

        return polars.DataFrame(_Form(self._rows, "polars"))

    def fetchnumpy(self, *, decimals: str = "float") -> dict[str, npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]]:
        """NumPy arrays by column, masked where there are NULLs.

        Numbers and timestamps of a loaded table are not copied: an array shows the table's memory, and writing to it changes
        only the array. Decimals are float64, or exact objects with ``decimals="object"``. Arrays of objects (strings, lists)
        are made when they are first taken out of the dict. Columns of one name are numbered: a, a_1.
        """
        return Arrays(self._rows, unique(self.columns), exact(decimals))

    def fetch_record_batch(self, *, native: bool = False) -> pa.RecordBatchReader:
        """The rows as a ``pyarrow.RecordBatchReader``, batch by batch and not kept: for results larger than memory.

        A relation that was not read yet stays so; the reader is a run of its own.
        """
        import pyarrow

        stream = self._rows.stream("native" if native else "consumer")
        # Through Python, which passes errors and Ctrl-C on as they are.
        batches = (pyarrow.RecordBatchReader.from_stream(batch).read_next_batch() for batch in stream)
        return pyarrow.RecordBatchReader.from_batches(pyarrow.schema(stream), batches)

    # Protocols.

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._rows.__arrow_c_schema__()

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self.arrow().__dataframe__(nan_as_null, allow_copy)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Rows and columns as one array of the columns' common type."""
        if copy is False:
            raise ValueError("a relation becomes an array by a copy only")
        arrays = [filled(values, mask) for values, mask in self._rows.arrays()]
        if not arrays:
            raise InterfaceError("a relation without columns is no array", sqlstate="22023")
        stacked = np.column_stack(arrays) if len({array.dtype for array in arrays}) == 1 else _mixed(arrays)
        return stacked if dtype is None else stacked.astype(dtype)

    # To look at.

    def show(self, max_rows: int = 20) -> None:
        """Prints the first rows as a table."""
        print(self._text(max_rows))

    def __repr__(self) -> str:
        return self._text(20)

    def _text(self, max_rows: int) -> str:
        rows, total = self._rows.head(max_rows)
        return display.text_table(self.columns, self.types, rows, total)

    def _repr_html_(self) -> str:
        rows, total = self._rows.head(20)
        return display.html_table(self.columns, self.types, rows, total)

    def plot(
        self, x: str | None = None, y: str | list[str] | None = None, *, kind: str = "line", ax: Any = None, **options: Any
    ) -> Any:
        """Draws the relation with matplotlib and returns the axes.

        `x`
            Column of the horizontal axis; by default the first, if there is another one to draw.
        `y`
            Columns to draw; by default every other column of numbers.
        `kind`
            "line", "scatter", "area", "bar", "barh" or "hist".
        """
        from firndb import plotting

        return plotting.plot(self, x, y, kind, ax, options)


def _mixed(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Columns of different types side by side: numbers widen to one type, anything else makes objects."""
    numbers = all(array.dtype.kind in "iuf" for array in arrays)
    return np.column_stack(arrays if numbers else [array.astype(object) for array in arrays])
