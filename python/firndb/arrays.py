"""The columns of a result as NumPy arrays: those of Python objects are made when they are first touched."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from firndb._firndb import NativeRelation

    Array = npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]

_T = TypeVar("_T")


def masked(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> Array:
    """Values, masked where they are missing."""
    return values if mask is None else np.ma.MaskedArray(values, mask)


class Arrays(dict[str, "Array"]):
    """Arrays by column: a dict that makes arrays of Python objects (strings, lists, exact decimals) when they are asked for."""

    __slots__ = ("_exact", "_missing", "_rows")

    def __init__(self, rows: NativeRelation, names: list[str], exact: bool) -> None:
        self._rows = rows
        self._exact = exact
        #: The columns that were not made yet, by name: their positions.
        self._missing: dict[str, int] = {}
        for position, (name, (values, mask)) in enumerate(zip(names, rows.arrays(None, exact, False), strict=True)):
            if values is None:
                self._missing[name] = position
                super().__setitem__(name, None)  # type: ignore[assignment]  # keeps the place of the column
            else:
                super().__setitem__(name, masked(values, mask))

    def __getitem__(self, name: str) -> Array:
        if name in self._missing:
            values, mask = self._rows.arrays([self._missing[name]], self._exact)[0]
            super().__setitem__(name, masked(values, mask))
            self._missing.pop(name, None)
        return super().__getitem__(name)

    def __setitem__(self, name: str, array: Array) -> None:
        self._missing.pop(name, None)
        super().__setitem__(name, array)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._missing.pop(name, None)

    # A dict's own iterator would let C code copy the dict without asking for the arrays.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    @overload
    def get(self, name: str, default: None = None, /) -> Array | None: ...
    @overload
    def get(self, name: str, default: Array, /) -> Array: ...
    @overload
    def get(self, name: str, default: _T, /) -> Array | _T: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        """The array of a column, or `default`."""
        return self[name] if name in self else default

    def values(self) -> ValuesView[Array]:  # type: ignore[override]
        """The arrays, all made."""
        return self._made().values()

    def items(self) -> ItemsView[str, Array]:  # type: ignore[override]
        """Names and arrays, all made."""
        return self._made().items()

    def pop(self, name: str, *default: Any) -> Any:
        """Takes a column out."""
        if name in self:
            array = self[name]
            del self[name]
            return array
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Array]:
        """Takes the last column out."""
        name = next(reversed(self.keys()), None)
        return super().popitem() if name is None else (name, self.pop(name))

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The array of a column, which becomes `default` if there is none."""
        return self[name] if name in self else super().setdefault(name, default)

    def clear(self) -> None:
        """Takes every column out."""
        super().clear()
        self._missing.clear()

    def copy(self) -> dict[str, Array]:
        """A plain dict."""
        return dict(self._made())

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(self._made()) | dict(other)

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(other) | dict(self._made())

    def __eq__(self, other: object) -> bool:
        return self._made() == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self._made())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._made(),)

    def _made(self) -> dict[str, Array]:
        """Every column as a plain dict."""
        return {name: self[name] for name in self}
