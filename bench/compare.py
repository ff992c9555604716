"""Equality of answers: decimals exactly, in value and scale, doubles to 1e-9, everything else as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same answer."""
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left == right and left.as_tuple().exponent == right.as_tuple().exponent
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-9)
    # An integer and a decimal without fraction are one number: engines differ in the type of a sum.
    if isinstance(left, Decimal | int) and isinstance(right, Decimal | int) and not isinstance(left, bool):
        return left == right
    return bool(type(left) is type(right) and left == right)


def assert_same(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], what: str) -> None:
    """Raises AssertionError at the first difference, row order included."""
    assert len(ours) == len(theirs), f"{what}: {len(ours)} rows, expected {len(theirs)}"
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        assert len(our) == len(their), f"{what}: {len(our)} columns, expected {len(their)}"
        for column, (left, right) in enumerate(zip(our, their, strict=True)):
            assert same(left, right), f"{what}: row {number}, column {column}: {left!r}, expected {right!r}"
