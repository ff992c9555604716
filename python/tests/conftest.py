"""A connection to a new database for each test."""

from __future__ import annotations

from collections.abc import Iterator

import firndb
import pytest


@pytest.fixture
def con() -> Iterator[firndb.Connection]:
    """A connection to an empty database in memory."""
    with firndb.connect() as connection:
        yield connection
