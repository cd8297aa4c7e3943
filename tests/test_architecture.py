"""docs/ARCHITECTURE.md beside the code: its table of rooms, and each file and function it names."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.sources import PACKAGE, ROOT
from tests.test_structure import BROKER_MAY_IMPORT, MAY_IMPORT, PURE

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)/` \|.*\| (pure|I/O) \| (.*?) \|$", PAGE, re.MULTILINE)
FOLDERS = re.findall(r"^\| `(\w+)/` \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE)
NAMED = re.findall(r"`([\w./-]+\.(?:py|md))(?:: (\w+))?`", PAGE)


@cache
def files() -> tuple[Path, ...]:
    """Every file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return tuple(ROOT / each for each in listed.stdout.split())


def exists(name: str, function: str) -> bool:
    """Whether there is such a file, by its path's end, and such a function or class in it."""
    definition = re.compile(rf"^\s*(async )?(def|class) {function}\b", re.MULTILINE)
    return any(
        f"/{each.relative_to(ROOT)}".endswith(f"/{name}")
        and (not function or definition.search(each.read_text(encoding="utf-8")))
        for each in files()
    )


def test_its_table_of_rooms_is_the_one_that_is_enforced() -> None:
    documented = {room: frozenset(may.replace("\N{EN DASH}", "").split()) for room, _, may in ROOMS}
    assert documented == {**MAY_IMPORT, "app": frozenset({"all"})}
    assert {room for room, kind, _ in ROOMS if kind == "pure"} == PURE


def test_it_lists_every_room_of_the_broker() -> None:
    broker = {each.parent.name for each in (PACKAGE / "broker").glob("*/__init__.py")}
    assert {folder for folder, _ in FOLDERS} == broker


def test_its_table_of_the_brokers_folders_is_the_one_that_is_enforced() -> None:
    listed = {folder: frozenset(may.replace("\N{EN DASH}", "").split()) for folder, may in FOLDERS}
    assert listed == BROKER_MAY_IMPORT


def test_the_files_and_functions_that_it_names_exist() -> None:
    missing = [name for name in NAMED if not exists(*name)]
    assert len(NAMED) > 50
    assert not missing, missing
