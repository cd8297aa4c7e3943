"""What the README shows is there: its program runs, its commands are ones that are understood."""

import re
import shlex
from pathlib import Path

import pytest

from counterpoise.app.main import full_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
TYPED = re.findall(r"^\$ (.+?)(?: +#.*)?$", README, re.MULTILINE)


@pytest.mark.client
def test_its_program_runs() -> None:
    program, fixture = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    assert "pulsar_cluster" in fixture


def test_its_commands_are_understood() -> None:
    parser = full_parser()
    ours = [each for each in TYPED if each.startswith("counterpoise ")]
    assert len(ours) > 15
    for each in ours:
        parser.parse_args(shlex.split(each.partition("<")[0])[1:])


def test_its_make_verbs_are_there() -> None:
    verbs = {each.split()[1] for each in TYPED if each.startswith("make ")}
    verbs |= {*re.findall(r"`make (\w+)`", README)}
    targets = {*re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)}
    assert {"demo", "test"} <= verbs <= targets
