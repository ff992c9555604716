"""A column of a relation, for libraries that take arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from firndb._firndb import NativeRelation


def filled(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Values with what NumPy has for missing ones: NaN, NaT, None. Integers become floats for that."""
    if mask is None or values.dtype.kind in "MmO":
        return values
    if values.dtype.kind in "iuf":
        values = values.astype(np.float64 if values.dtype.kind in "iu" else values.dtype, copy=False)
        values[mask] = np.nan
        return values
    values = values.astype(object)
    values[mask] = None
    return values


class Column:
    """A column of a relation. ``numpy.asarray(column)`` and ``torch.from_dlpack(column)`` take it as an array.

    Arrays are copies: writing to one changes nothing else.
    """

    __slots__ = ("_position", "_rows", "name", "type")

    #: Its name.
    name: str
    #: Its SQL type.
    type: str

    def __init__(self, rows: NativeRelation, position: int, name: str, kind: str) -> None:
        self._rows = rows
        self._position = position
        self.name = name
        self.type = kind

    def __len__(self) -> int:
        return len(self._rows)

    def to_numpy(self, *, decimals: str = "float") -> npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]:
        """The values, masked where there are NULLs."""
        values, mask = self._array(decimals == "object")
        return values if mask is None else np.ma.MaskedArray(values, mask)

    def to_list(self) -> list[Any]:
        """The values as Python objects."""
        rows, _ = self._rows.head(len(self._rows))
        return [row[self._position] for row in rows]

    def arrow(self, *, native: bool = False) -> pa.ChunkedArray:
        """The values as a ``pyarrow.ChunkedArray`` over the same memory."""
        from firndb.relation import Relation

        return Relation(self._rows).arrow(native=native).column(self._position)

    def _array(self, exact: bool = False) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        return self._rows.arrays([self._position], exact)[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a column becomes an array by a copy only")
        values = filled(*self._array())
        return values if dtype is None else values.astype(dtype, copy=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __dlpack__(self, **options: Any) -> Any:
        values, mask = self._array()
        if mask is not None:
            raise BufferError(f'column "{self.name}" has NULLs, which DLPack has no place for')
        return values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU, the only one

    def __repr__(self) -> str:
        return f"<firndb.Column {self.name} {self.type}>"
