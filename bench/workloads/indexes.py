"""The ordered index beside libraries that could be in its place, from Rust."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.harness import OURS, Measurement

PROJECT = Path(__file__).parent.parent.parent


def workload() -> Iterator[Measurement]:
    """The ordered index beside libraries that could be in its place: one and two threads, numbers and strings of bytes."""
    command = ["cargo", "run", "--quiet", "--release", "-p", "firndb-storage", "--example", "index_libraries"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            measurement = Measurement(**json.loads(line))
            if measurement.unit == "wrong" and measurement.engine == OURS and measurement.value:
                raise RuntimeError(f"{measurement.case}: {measurement.value:.0f}")
            yield measurement
    if process.returncode:
        raise RuntimeError(f"the benchmark ended with {process.returncode}")
