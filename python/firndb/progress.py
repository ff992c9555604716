"""The progress bar of long statements, on standard error of a terminal or notebook."""

from __future__ import annotations

import sys

WIDTH = 32


class ProgressBar:
    """One line that is drawn over and over, and erased at the end."""

    def __init__(self) -> None:
        self._stream = sys.stderr if _is_watched() else None
        self._length = 0

    def update(self, fraction: float, rows: int, seconds: float) -> None:
        """Draws: the part that is done from 0 to 1, rows read so far, time since the start."""
        if self._stream is None:
            return
        fraction = min(max(fraction, 0.0), 1.0)
        done = round(fraction * WIDTH)
        text = f"{fraction:4.0%} ▕{'█' * done}{' ' * (WIDTH - done)}▏ {rows:,} rows, {seconds:.1f} s"
        self._stream.write("\r" + text.ljust(self._length))
        self._stream.flush()
        self._length = len(text)

    def clear(self) -> None:
        """Takes the bar away."""
        if self._stream is not None and self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length = 0


def _is_watched() -> bool:
    """Whether someone looks at standard error: a terminal, or a notebook's cell."""
    if sys.stderr is None:
        return False
    try:
        if sys.stderr.isatty():
            return True
    except (AttributeError, ValueError):
        return False
    notebook = sys.modules.get("IPython")
    if notebook is None:
        return False
    shell = notebook.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
