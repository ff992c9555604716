"""What counts as a table: data frames of other libraries, and those of the caller found by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from firndb import _firndb
from firndb.exceptions import DataError, Error, ProgrammingError

if TYPE_CHECKING:
    import numpy.typing as npt

    from firndb._firndb import ArrowStream

#: Whatever `as_stream` understands; libraries that are not installed can't be named here.
Frame = Any
#: What `table_of_columns` takes: the kind of the values, the values, a mask of the missing ones.
Prepared = tuple[str, Any, "npt.NDArray[np.bool_] | None"]
#: Values for ``?`` and ``$1`` as a sequence, for ``$name`` as a mapping.
Parameters = Sequence[Any] | Mapping[str, Any] | None


def find(name: str, thread: int) -> ArrowStream | None:
    """The frame that a variable of the Python code which waits for us on `thread` holds: locals before globals."""
    frame = sys._current_frames().get(thread)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return None
    for scope in (frame.f_locals, frame.f_globals):
        for variable in _spellings(name, scope):
            stream = as_stream(scope[variable], found=True, lenient=True)
            if stream is not None:
                return stream
    return None


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return isinstance(module, str) and (module == "firndb" or module.startswith("firndb."))


def _spellings(name: str, scope: Mapping[str, Any]) -> Iterator[str]:
    """The variable of that name, or else those that differ in case only."""
    if name in scope:
        yield name
    else:
        yield from [variable for variable in scope if variable.lower() == name.lower()]


def as_stream(frame: Frame, *, found: bool = False, lenient: bool = False) -> ArrowStream | None:
    """A frame as something with an Arrow stream; None for what is no table.

    With `found` (a variable that happens to have the name), plain Python data counts only if it holds NumPy arrays. With
    `lenient`, a column that can't be converted is an error only of the statements that read it.
    """
    from firndb.relation import Relation

    if isinstance(frame, Relation):
        return frame._rows
    if isinstance(frame, type):
        return None
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas":
        return _from_pandas(frame, lenient)
    if library == "polars":
        return _from_polars(frame, lenient)
    if library == "pyarrow":
        return _from_pyarrow(frame)
    if isinstance(frame, Mapping):
        if found and not any(isinstance(values, np.ndarray) for values in frame.values()):
            return None
        return _from_columns(frame, lenient)
    if isinstance(frame, np.ndarray) and frame.dtype.names:
        return _from_columns({name: frame[name] for name in frame.dtype.names}, lenient)
    if isinstance(frame, list) and frame and not found and all(isinstance(row, Mapping) for row in frame):
        names = list(dict.fromkeys(name for row in frame for name in row))
        return _from_columns({name: [row.get(name) for row in frame] for name in names}, lenient)
    if hasattr(frame, "__arrow_c_stream__"):
        return cast("ArrowStream", frame)
    return None


def _from_pandas(frame: Any, lenient: bool) -> ArrowStream | None:
    import pandas

    if isinstance(frame, pandas.Series):
        frame = frame.to_frame(name="column" if frame.name is None else frame.name)
    if not isinstance(frame, pandas.DataFrame):
        return None
    _check_names([str(name) for name in frame.columns])
    frame = _plain(frame)
    columns = {str(name): column for name, column in frame.items()}
    try:
        import pyarrow
    except ModuleNotFoundError:
        return _from_columns(columns, lenient)
    if any(isinstance(dtype, pandas.PeriodDtype) for dtype in frame.dtypes):
        return _from_columns(columns, lenient)
    try:
        return cast("ArrowStream", pyarrow.Table.from_pandas(frame, preserve_index=False))
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
        # What Arrow can't infer, integers of more than 64 bits for one, is read value by value, and refused by its column's name.
        return _from_columns(columns, lenient)


def _plain(frame: Any) -> Any:
    """A pandas frame without the columns that Arrow has no form for, where they mean plain ones."""
    import pandas

    changed = {}
    for position, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, pandas.SparseDtype):
            changed[position] = frame.iloc[:, position].sparse.to_dense()
        elif isinstance(dtype, np.dtype) and not dtype.isnative:
            changed[position] = frame.iloc[:, position].astype(dtype.newbyteorder("="))
    if changed:
        columns = {i: changed.get(i, frame.iloc[:, i]) for i in range(len(frame.columns))}
        plain = pandas.DataFrame(columns, index=frame.index)
        plain.columns = frame.columns
        return plain
    return frame


def _check_names(names: Sequence[str]) -> None:
    seen = set()
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError("a column's name with a lone surrogate is no valid UTF-8", sqlstate="22021") from error
        if name in seen:
            raise ProgrammingError(f'column "{name}" specified more than once', sqlstate="42701")
        seen.add(name)


def _from_polars(frame: Any, lenient: bool) -> ArrowStream | None:
    import polars

    if isinstance(frame, polars.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, polars.Series):
        frame = frame.to_frame()
    if not isinstance(frame, polars.DataFrame):
        return None
    casts = []
    refused = {}
    nothing = False
    for name, dtype in frame.schema.items():
        if dtype == polars.Object:
            # Polars exports the addresses of the objects.
            error = ProgrammingError(f'column "{name}" holds Python objects, which SQL has not', sqlstate="22023")
            if not lenient:
                raise error
            refused[name] = _reason(error)
            casts.append(polars.lit(None, dtype=polars.String).alias(name))
        if dtype in (polars.Int128, getattr(polars, "UInt128", polars.Int128)):
            casts.append(polars.col(name).cast(polars.Decimal(38, 0)))
        nothing = nothing or "Null" in str(dtype)
    if casts:
        try:
            frame = frame.with_columns(casts)
        except polars.exceptions.PolarsError as error:
            raise DataError(f"an integer of more than 38 digits is out of range: {error}", sqlstate="22003") from error
    if refused:
        table = frame.to_arrow()
        for place, field in enumerate(table.schema):
            if field.name in refused:
                marked = field.with_metadata({_firndb.REFUSED: refused[field.name]})
                table = table.set_column(place, marked, table.column(place))
        return cast("ArrowStream", table)
    # Polars gives its columns of nothing a buffer that Arrow's interface has not.
    return cast("ArrowStream", frame.to_arrow() if nothing else frame)


def _from_pyarrow(frame: Any) -> ArrowStream | None:
    import pyarrow

    if isinstance(frame, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.RecordBatchReader)):
        return cast("ArrowStream", frame)
    if hasattr(frame, "scanner"):  # pyarrow.dataset.Dataset, whose module is optional
        return cast("ArrowStream", frame.scanner().to_reader())
    return None


def _from_columns(columns: Mapping[str, Any], lenient: bool) -> ArrowStream:
    for name in columns:
        if not isinstance(name, str):
            raise ProgrammingError(f"the name of a column must be a str, not {name!r}", sqlstate="22023")
    _check_names(list(columns))
    prepared = [_prepared(name, values, lenient) for name, values in columns.items()]
    try:
        return _firndb.table_of_columns(list(columns), prepared)
    except ProgrammingError as error:
        usable = [
            _checked(name, column, values, lenient) for (name, values), column in zip(columns.items(), prepared, strict=True)
        ]
        if all(checked is column for checked, column in zip(usable, prepared, strict=True)):
            raise error
    return _firndb.table_of_columns(list(columns), usable)


def _prepared(name: str, values: Any, lenient: bool) -> Prepared:
    try:
        return _column(name, values)
    except (ProgrammingError, DataError) as error:
        if not lenient or not hasattr(values, "__len__"):
            raise
        return ("refused", (len(values), _reason(error)), None)


def _checked(name: str, column: Prepared, values: Any, lenient: bool) -> Prepared:
    """The column, if it can be converted; otherwise it is refused by its name, or marked as refused."""
    try:
        _firndb.table_of_columns([name], [column])
    except ProgrammingError as error:
        named = ProgrammingError(f'column "{name}": {error}', sqlstate=error.sqlstate)
        if not lenient or not hasattr(values, "__len__"):
            raise named from error
        return ("refused", (len(values), _reason(named)), None)
    return column


def _reason(error: Error) -> str:
    """An error as the native module takes it: its SQLSTATE and its message."""
    return f"{error.sqlstate or '22023'} {error}"


def _column(name: str, values: Any) -> Prepared:
    mask = None
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ascontiguousarray(np.ma.getmaskarray(values))
        values = values.data
    if type(values).__module__.partition(".")[0] == "pandas":
        if type(values.dtype).__name__ == "PeriodDtype":
            raise ProgrammingError(
                f'column "{name}" holds periods, which SQL has not',
                sqlstate="22023",
                hint="Series.dt.to_timestamp() gives their beginnings.",
            )
        mask = np.ascontiguousarray(values.isna().to_numpy(dtype=bool))
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        return ("objects", values if isinstance(values, (list, tuple)) else _listed(name, values), None)
    if values.ndim != 1:
        raise ProgrammingError(f'column "{name}" has {values.ndim} dimensions instead of one', sqlstate="22023")
    kind = values.dtype.kind
    if kind in "biuf":
        return ("number", _native(values), mask if mask is not None and mask.any() else None)
    if kind in "Mm":
        return _times(name, values, mask)
    if kind in "OUST":
        return ("objects", _objects(values, mask), None)
    raise ProgrammingError(f'column "{name}" has the type {values.dtype}, which SQL has not', sqlstate="22023")


def _listed(name: str, values: Any) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise ProgrammingError(f'column "{name}" is a {type(values).__name__} and no sequence of values', sqlstate="22023")
    return list(values)


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Contiguous, aligned, in the machine's byte order, of a width that Arrow has."""
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        dtype = np.dtype(np.float32 if dtype.itemsize == 2 else np.float64)
    return np.require(values.astype(dtype, copy=False), requirements=["C", "A"])


def _times(name: str, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> Prepared:
    unit, step = np.datetime_data(values.dtype)
    if unit == "generic":
        raise ProgrammingError(f'column "{name}" holds times without a unit', sqlstate="22023")
    wanted = "ns" if unit in ("ns", "ps", "fs", "as") else unit if unit in ("s", "ms", "us") else "s"
    kind = "timestamp"
    if values.dtype.kind == "M":
        if unit in ("D", "W", "M", "Y"):
            kind, wanted = "date", "D"
    elif unit in ("M", "Y"):
        raise ProgrammingError(f'column "{name}" counts months, which have no fixed length', sqlstate="22023")
    else:
        kind = "interval"
    if (unit, step) != (wanted, 1) or not values.dtype.isnative:
        values = values.astype(f"{values.dtype.kind}8[{wanted}]")
    plain = np.require(values, requirements=["C", "A"]).view(np.int64)
    return (kind if kind == "date" else f"{kind}:{wanted}", plain, mask)


def _objects(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> list[Any]:
    """Objects as a list. In columns of objects NaN means missing, as in pandas."""
    objects = [None if isinstance(value, float) and value != value else value for value in values.tolist()]
    if mask is not None:
        objects = [None if missing else value for value, missing in zip(objects, mask.tolist(), strict=True)]
    return objects
