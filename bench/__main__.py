"""``python -m bench``: every workload; ``python -m bench NAME …``: those; ``--readme``: the latest tables into the README."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from bench import harness
from bench.workloads import OF_USERS, WORKLOADS


def update_readme() -> None:
    """Puts the tables of the latest results between the README's marks."""
    readme = Path(__file__).parent.parent / "README.md"
    parts = []
    for name in OF_USERS:
        file = harness.RESULTS / f"{name}.json"
        if file.exists():
            record = json.loads(file.read_text())
            measurements = [harness.Measurement(**m) for m in record["measurements"]]
            if all(m.engine != harness.OURS for m in measurements):
                continue
            title = (WORKLOADS[name].__doc__ or name).strip().splitlines()[0]
            parts.append(f"**{title}**\n\n{harness.ratio_table(measurements)}")
    body = "\n\n".join(parts)
    marked = re.sub(
        r"(<!-- bench -->\n).*?(<!-- /bench -->)",
        lambda match: f"{match[1]}\n{body}\n\n{match[2]}",
        readme.read_text(),
        flags=re.DOTALL,
    )
    readme.write_text(marked)


def main() -> None:
    """Runs the workloads that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *WORKLOADS], help="workloads; none: all")
    parser.add_argument("--readme", action="store_true", help="write the latest results into the README and stop")
    arguments = parser.parse_args()
    if arguments.readme:
        update_readme()
        return
    for name in arguments.names or WORKLOADS:
        harness.run(name, WORKLOADS[name])


if __name__ == "__main__":
    main()
