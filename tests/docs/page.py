"""Reads a page of the documentation: the files it shows and the commands that a reader is to type.

A line that begins with ``%`` is a comment of the page; before a block it says what a test needs to
know: ``% file: NAME`` (the block is that file), ``% in the background, until: TEXT`` (the command
goes on; it is there once it prints TEXT), ``% first stopped: what runs in the background``,
``% here also: --OPTION`` (the test adds it),
``% status: 0 or 1``, ``% not run here: why``, and for a whole page ``% with: a cluster``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NOTE = re.compile(r"^% ([\w ,]+?)(?:: (.+))?$")


@dataclass(frozen=True)
class Command:
    """What a person types, and what the page says that it answers (``...``: anything)."""

    text: str
    answer: str
    statuses: tuple[int, ...] = (0,)
    until: str | None = None
    """It goes on in the background; it is there once it has printed this."""
    alone: bool = False
    """What the page left running is stopped before."""


@dataclass(frozen=True)
class File:
    """What a person is shown as a file."""

    name: str
    text: str


@dataclass(frozen=True)
class Page:
    """One page, in the order in which a person follows it."""

    path: Path
    needs: tuple[str, ...]
    steps: tuple[Command | File, ...]
    left_out: tuple[tuple[str, str], ...]
    """Commands that are not run, and why."""


def read_page(path: Path) -> Page:
    """Read a page; raises `ValueError` for a block that no test would know what to do with."""
    text = path.read_text("utf-8")
    steps: list[Command | File] = []
    left_out: list[tuple[str, str]] = []
    for block in _BLOCK.finditer(text):
        kind, body = block[1], block[2]
        notes = _notes(text[: block.start()])
        if "file" in notes:
            steps.append(File(notes["file"], body))
        elif kind == "console":
            commands = _commands(body, notes)
            if "not run here" in notes:
                left_out += [(command.text, notes["not run here"]) for command in commands]
            else:
                steps += commands
        elif kind in ("python", "json", "properties", "bash", "sh"):
            raise ValueError(f"{path.name}: a block of {kind} that is neither file nor command")
    needs = tuple(match[1] for match in re.finditer(r"^% with: (.+)$", text, re.MULTILINE))
    return Page(path, needs, tuple(steps), tuple(left_out))


def _notes(before: str) -> dict[str, str]:
    """The comments directly before a block."""
    found = {}
    for line in reversed(before.rstrip("\n").split("\n")):
        match = _NOTE.match(line)
        if match is None:
            break
        found[match[1]] = match[2] or ""
    return found


def _commands(body: str, notes: dict[str, str]) -> list[Command]:
    statuses = tuple(int(n) for n in notes.get("status", "0").split(" or "))
    until = notes.get("in the background, until")
    alone = "first stopped" in notes
    made = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        typed, _, answer = part.replace("\\\n", "\0").partition("\n")
        text = " ".join([re.sub(r"\s*\0\s*", " ", typed), notes.get("here also", "")]).strip()
        made.append(Command(text, answer, statuses, until, alone))
    return made


def matches(wanted: str, got: str) -> bool:
    """Whether an answer is what the page says: ``...`` stands for anything, blanks count alike."""
    parts = [re.escape(" ".join(part.split())) for part in wanted.split("...")]
    pattern = r"\s*.*".join(part.replace(r"\ ", r"\s+") for part in parts)
    return re.fullmatch(pattern, " ".join(got.split()), re.DOTALL) is not None
