"""Reads a Dockerfile, and carries out its steps below a directory where no builder is."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = frozenset(
    {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"}
    | {"ENTRYPOINT", "CMD"}
)


@dataclass
class Stage:
    """One stage of a build: its instructions in order, without the comments."""

    base: str
    name: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """The arguments of the last instruction of a kind; empty without one."""
        return next((text for kind, text in reversed(self.steps) if kind == instruction), "")

    def all(self, instruction: str) -> list[str]:
        """The arguments of every instruction of a kind."""
        return [text for kind, text in self.steps if kind == instruction]

    @property
    def environ(self) -> dict[str, str]:
        """What ENV sets, as it is written."""
        return dict(pair.split("=", 1) for text in self.all("ENV") for pair in text.split())

    def words(self, instruction: str) -> list[str]:
        """The words of ENTRYPOINT, CMD or HEALTHCHECK in their JSON form."""
        text = self.last(instruction)
        return [str(each) for each in json.loads(text[text.index("[") :])]


def stages(dockerfile: Path) -> list[Stage]:
    """Its stages; raises ``AssertionError`` for an instruction that is not known here."""
    found: list[Stage] = []
    for line in _lines(dockerfile.read_text(encoding="utf-8")):
        kind, _, text = line.partition(" ")
        assert kind in KNOWN, f"{dockerfile.name}: {line}"
        if kind == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name))
        else:
            found[-1].steps.append((kind, text.strip()))
    return found


def _lines(text: str) -> Iterator[str]:
    whole = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    yield from (line.strip() for line in whole.replace("\\\n", " ").splitlines() if line.strip())


def carry_out(stage: Stage, context: Path, root: Path) -> None:
    """COPY and RUN of a stage, with each absolute path below `root`; this Python is its base's."""
    work = root
    for kind, text in stage.steps:
        if kind == "WORKDIR":
            work = root / text.lstrip("/")
            work.mkdir(parents=True, exist_ok=True)
        elif kind == "COPY":
            *sources, to = text.split()
            for each in sources:
                if (context / each).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(context / each, work / to, ignore=ignored)
                else:
                    shutil.copy(context / each, work / to)
        elif kind == "RUN":
            subprocess.run(
                ["sh", "-ec", below(text, root)],
                cwd=work,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                check=True,
                capture_output=True,
                timeout=900,
            )


def below(text: str, root: Path) -> str:
    """A command with its absolute paths below a directory."""
    return re.sub(r"(?<![\w.:/])/(opt|src|var)\b", rf"{root}/\1", text)
