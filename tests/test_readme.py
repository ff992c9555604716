"""Every snippet of the README runs, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache" / "firndb" / "target"))


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_python_snippets_print_what_they_say() -> None:
    source = "\n".join(blocks("python"))
    expected = re.findall(r"^# → (.*)$", source, flags=re.MULTILINE)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, "README.md", "exec"), {"__name__": "readme"})
    assert output.getvalue().splitlines() == expected


def test_make_verbs_exist() -> None:
    verbs = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE)
    assert verbs
    for verb in verbs:
        assert re.search(rf"^{verb}:", MAKEFILE, flags=re.MULTILINE), verb


def test_shell_snippet_prints_what_it_says() -> None:
    command = next(line for line in "\n".join(blocks("sh")).splitlines() if line.startswith("firndb "))
    environment = {**os.environ, "PATH": f"{TARGET / 'release'}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == blocks("text")[0]


def test_rust_snippet_is_the_crates_example_and_runs() -> None:
    assert blocks("rust") == [(ROOT / "crates" / "firndb" / "examples" / "readme.rs").read_text()]
    done = subprocess.run([TARGET / "release" / "examples" / "readme"], capture_output=True, text=True, check=True)
    assert "45" in done.stdout


@pytest.mark.parametrize("path", re.findall(r"\]\(((?!https?:)[^)]+)\)", README))
def test_link_leads_somewhere(path: str) -> None:
    assert (ROOT / path).exists()
