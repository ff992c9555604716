"""One harness for every workload: time, compare as ratios, print, plot, keep as JSON.

A workload yields `Measurement`s. All engines of a workload run in one process and one run; what is quoted is the ratio
between them, since absolute times vary from machine to machine and from run to run.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
OURS = "FirnDB"


@dataclass(frozen=True)
class Measurement:
    """One engine's figure for one case."""

    case: str
    engine: str
    value: float
    # "s" and "bytes": less is better; "1/s": operations a second, more is better; "wrong": should be 0; others are drawn.
    unit: str
    figure: str = ""  # the figure that it is a point of, if it is one
    x: float = 0.0  # its place there

    def speedup_over(self, other: Measurement) -> float:
        """How many times faster this is than `other`."""
        return self.value / other.value if self.unit == "1/s" else other.value / self.value


Workload = Callable[[], Iterator[Measurement]]


def best_of(runs: int, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs after one that is not counted."""
    work()
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
        del result
    return best


def alternate(runs: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """As `best_of`, the engines taking turns, so that a drift of the machine's speed meets all of them."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(runs):
        for name, work in works.items():
            gc.collect()
            start = time.perf_counter()
            result = work()
            best[name] = min(best[name], time.perf_counter() - start)
            del result
    return best


def rate(seconds: float, work: Callable[[int], Any]) -> float:
    """Operations a second: `work(i)` is called with growing i until the time is over."""
    for i in range(50):
        work(i)
    count, start = 50, time.perf_counter()
    while True:
        for i in range(count, count + 50):
            work(i)
        count += 50
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return (count - 50) / elapsed


def pss() -> int:
    """The process' proportional set size in bytes: shared pages count once over all who map them."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Pss in smaps_rollup")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ("firndb", "duckdb", "datafusion", "pyarrow", "pandas", "polars", "numpy")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "date": time.strftime("%Y-%m-%d"),
    }


def run(name: str, workload: Workload) -> list[Measurement]:
    """Runs a workload, prints its table, keeps JSON and plot."""
    print(f"\n{name}: {(workload.__doc__ or '').strip().splitlines()[0]}", flush=True)
    measurements = []
    for measurement in workload():
        measurements.append(measurement)
        print(f"  {measurement.case:<44} {measurement.engine:<22} {show(measurement)}", flush=True)
    print()
    if any(m.engine == OURS for m in measurements):
        print(ratio_table(measurements))
    RESULTS.mkdir(exist_ok=True)
    record = {"workload": name, "machine": machine(), "measurements": [asdict(m) for m in measurements]}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    if any(m.figure for m in measurements):
        plot_figures(name, measurements)
    else:
        plot(name, measurements)
    return measurements


def show(measurement: Measurement) -> str:
    """A figure for people."""
    if measurement.unit == "s":
        return f"{measurement.value * 1000:,.1f} ms"
    if measurement.unit == "1/s":
        return f"{measurement.value:,.0f} per s"
    digits = 3 if measurement.unit == "ratio" else 1 if measurement.unit == "GB/s" else 0
    return f"{measurement.value:,.{digits}f} {measurement.unit}"


def by_case(measurements: Iterable[Measurement]) -> dict[str, dict[str, Measurement]]:
    """Measurements that compare by case, then by engine, in the order measured."""
    cases: dict[str, dict[str, Measurement]] = {}
    for measurement in measurements:
        if measurement.unit == "wrong":
            continue
        cases.setdefault(measurement.case, {})[measurement.engine] = measurement
    return cases


def ratio_table(measurements: list[Measurement]) -> str:
    """Markdown: a row a case, FirnDB's figure, then how many times faster FirnDB is than each peer (under 1: slower)."""
    cases = by_case(measurements)
    peers = list(dict.fromkeys(m.engine for m in measurements if m.engine != OURS))
    lines = [
        "| case | FirnDB | " + " | ".join(f"against {peer}" for peer in peers) + " |",
        "| --- | --- |" + " --- |" * len(peers),
    ]
    for case, engines in cases.items():
        ours = engines.get(OURS)
        if ours is None:
            continue
        cells = [f"{ours.speedup_over(engines[peer]):.2f}x" if peer in engines else "" for peer in peers]
        lines.append(f"| {case} | {show(ours)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot_figures(name: str, measurements: list[Measurement]) -> None:
    """A line a series, a panel a figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures: dict[str, dict[str, list[Measurement]]] = {}
    for measurement in measurements:
        if measurement.figure:
            figures.setdefault(measurement.figure, {}).setdefault(measurement.engine, []).append(measurement)
    columns = 3
    rows = -(-len(figures) // columns)
    drawn, panels = pyplot.subplots(rows, columns, figsize=(5 * columns, 3.6 * rows), squeeze=False)
    for panel in panels.flat[len(figures) :]:
        panel.axis("off")
    for panel, (figure, series) in zip(panels.flat, figures.items(), strict=False):
        for engine, points in series.items():
            panel.plot([p.x for p in points], [p.value for p in points], marker="o", markersize=3, label=engine)
            panel.set_ylabel(points[0].unit)
        if any(p.value > 0 for points in series.values() for p in points):
            panel.set_yscale("log" if figure.startswith(("12", "13", "15")) else "linear")
        if figure.startswith("14"):
            panel.set_xscale("log", base=2)
        panel.set_title(figure, fontsize=9)
        panel.legend(fontsize=7)
    drawn.tight_layout()
    drawn.savefig(RESULTS / f"{name}.png", dpi=120)
    pyplot.close(drawn)


def plot(name: str, measurements: list[Measurement]) -> None:
    """A bar chart of the speed-ups over each peer, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = by_case(measurements)
    peers = list(dict.fromkeys(m.engine for m in measurements if m.engine != OURS))
    shown = [case for case, engines in cases.items() if OURS in engines]
    figure, axes = pyplot.subplots(figsize=(max(6.0, 0.5 * len(shown) * max(1, len(peers)) + 2), 4.5))
    width = 0.8 / max(1, len(peers))
    for index, peer in enumerate(peers):
        positions = [i + index * width for i, case in enumerate(shown) if peer in cases[case]]
        heights = [cases[case][OURS].speedup_over(cases[case][peer]) for case in shown if peer in cases[case]]
        axes.bar(positions, heights, width, label=peer)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("times faster than the peer")
    axes.set_xticks([i + width * (len(peers) - 1) / 2 for i in range(len(shown))], shown, rotation=60, ha="right", fontsize=8)
    axes.legend()
    axes.set_title(name)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=120)
    pyplot.close(figure)
