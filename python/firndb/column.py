"""A column of a relation, for libraries that take arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firndb.arrays import masked
from firndb.exceptions import ProgrammingError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from firndb._firndb import NativeRelation


#: Whether this NumPy makes versioned capsules.
_DLPACK_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def exact(decimals: str) -> bool:
    """Whether decimals are to be exact objects rather than float64."""
    if decimals not in ("float", "object"):
        raise ProgrammingError(f'decimals must be "float" or "object", not {decimals!r}', sqlstate="22023")
    return decimals == "object"


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

    Arrays of numbers and timestamps of a loaded table show the table's memory without a copy. Writing to an array changes
    only the array: the operating system copies the page that is written to.
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
        return masked(*self._array(exact(decimals)))

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

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The values as a DLPack capsule, versioned where NumPy (2.1 or newer) and the consumer know versions.

        The tensor may be written to: that changes nothing but the tensor.
        """
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a column is in the memory of the processor only")
        values, mask = self._array()
        if mask is not None:
            raise BufferError(f'column "{self.name}" has NULLs, which DLPack has no place for')
        if max_version is None or _DLPACK_VERSIONS is False:
            # An array is nobody else's: it needs no further copy.
            return values.__dlpack__(stream=stream)
        return values.__dlpack__(stream=stream, max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU, the only one

    def __repr__(self) -> str:
        return f"<firndb.Column {self.name} {self.type}>"
