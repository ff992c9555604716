"""Relations as charts, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firndb.exceptions import ProgrammingError

if TYPE_CHECKING:
    from firndb.relation import Relation

KINDS = ("line", "scatter", "area", "bar", "barh", "hist")


def plot(relation: Relation, x: str | None, y: str | list[str] | None, kind: str, ax: Any, options: dict[str, Any]) -> Any:
    """Draws columns `y` over column `x`; see :meth:`firndb.Relation.plot`."""
    from matplotlib import pyplot

    if kind not in KINDS:
        raise ProgrammingError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}", sqlstate="22023")
    names = relation.columns
    if x is None and kind != "hist" and len(names) > 1:
        x = names[0]
    across = None if x is None else np.asarray(relation[x])
    drawn = [y] if isinstance(y, str) else y if y is not None else _numbers(relation, x)
    if not drawn:
        raise ProgrammingError("there is no column of numbers to draw", sqlstate="22023")
    axes = pyplot.subplots()[1] if ax is None else ax
    for index, name in enumerate(drawn):
        values = np.asarray(relation[name], dtype=np.float64)
        at = np.arange(len(values)) if across is None else across
        _draw(axes, kind, at, values, index, len(drawn), {"label": name, **options})
    if x is not None:
        (axes.set_ylabel if kind == "barh" else axes.set_xlabel)(x)
    if len(drawn) > 1:
        axes.legend()
    elif kind != "hist":
        (axes.set_xlabel if kind == "barh" else axes.set_ylabel)(drawn[0])
    return axes


def _numbers(relation: Relation, x: str | None) -> list[str]:
    return [name for name in relation.columns if name != x and np.asarray(relation[name]).dtype.kind in "iufb"]


def _draw(axes: Any, kind: str, at: Any, values: Any, index: int, count: int, options: dict[str, Any]) -> None:
    if kind == "line":
        axes.plot(at, values, **options)
    elif kind == "scatter":
        axes.scatter(at, values, **options)
    elif kind == "area":
        axes.fill_between(at, values, **{"alpha": 0.5, **options})
    elif kind == "hist":
        axes.hist(values[~np.isnan(values)], **{"alpha": 1.0 if count == 1 else 0.6, **options})
    else:
        places, thickness = np.arange(len(values)), 0.8 / count
        shifted = places + (index - (count - 1) / 2) * thickness
        labels = [str(label) for label in at]
        if kind == "bar":
            axes.bar(shifted, values, thickness, **options)
            axes.set_xticks(places, labels)
        else:
            axes.barh(shifted, values, thickness, **options)
            axes.set_yticks(places, labels)
