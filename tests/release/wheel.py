"""Builds the wheel, and environments that have it and nothing but what it says it needs."""

import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("", "pipeline", "demo", "console")
"""What users install; the others are for those who work on this."""


def build(to: Path) -> Path:
    """The wheel, by the build backend of this environment."""
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(to)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return to / done.stdout.strip().splitlines()[-1]


def installed(to: Path, wheel: Path) -> Path:
    """The directory into which pip installed the wheel alone; no index is asked."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    # Compiled is what is used, when it is used.
    subprocess.run([*command, "--no-compile", "--target", str(to), str(wheel)], check=True)
    return to


def environment(
    to: Path, wheel: Path, package: Path, extra: str, more: tuple[str, ...] = ()
) -> Path:
    """A new environment's Python: what was installed of the wheel, and what that declares.

    It is linked from this environment. What is not declared is not there, however much this
    environment has, except for ``more``.
    """
    venv.create(to, with_pip=False, symlinks=True)
    [packages] = to.glob("lib/python*/site-packages")
    for each in package.glob("counterpoise*"):
        (packages / each.name).symlink_to(each)
    link_needed(packages, needed(wheel, extra, more))
    return to / "bin" / "python"


def link_needed(packages: Path, names: set[str]) -> None:
    """Link packages of this environment into a directory of packages, unless it has them."""
    for name in names:
        for top in {file.parts[0] for file in metadata.files(name) or () if ".." not in file.parts}:
            found = Path(str(metadata.distribution(name).locate_file(top)))
            if found.exists() and not (packages / top).exists():
                (packages / top).symlink_to(found)


def size(names: set[str]) -> int:
    """Bytes of packages as installed here, without what Python compiles by itself."""
    files = (file for name in names for file in metadata.files(name) or ())
    paths = (Path(str(file.locate())) for file in files if "__pycache__" not in file.parts)
    return sum(path.stat().st_size for path in paths if path.is_file())


def needed(wheel: Path, extra: str, more: tuple[str, ...] = ()) -> set[str]:
    """Everything that the wheel needs, and ``more``, and what that needs, as installed here."""
    [declared] = metadata.Distribution.discover(name="counterpoise", path=[str(wheel)])
    wanted = [(text, extra) for text in (*(declared.requires or ()), *more)]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while wanted:
        text, chosen = wanted.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": chosen}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name == "counterpoise":
            wanted += [
                (more, each) for each in requirement.extras for more in declared.requires or ()
            ]
            continue
        for each in requirement.extras | {""}:
            if (name, each) not in seen:
                seen.add((name, each))
                found.add(name)
                wanted += [(more, each) for more in metadata.requires(name) or ()]
    return found
