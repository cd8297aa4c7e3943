"""Ways to have ``counterpoise up`` without an installation: one executable file, and ``uvx``."""

import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Protocol

from tests.release.first_message import first_message
from tests.release.wheel import ROOT

SHIV, UV = "shiv==1.0.8", "uv==0.13.9"
"""What packs the executable, and what has ``uvx``; each in an environment of its own."""
CONSTRAINTS = ROOT / "constraints.txt"
DIST = ROOT / "dist"
_ONES_OWN = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}


class Trial(Protocol):
    """Uses a wheel in one way; returns what came of it, with figures."""

    def __call__(self, wheel: Path, scratch: Path) -> str:
        """Raises RuntimeError or `subprocess.SubprocessError` if it cannot be used."""


def executable(wheel: Path, scratch: Path) -> Path:
    """One file with all that a cluster needs but Python itself, for this Python and platform."""
    packages, tools = scratch / "packages", _tools(scratch, SHIV)
    _pip("--target", str(packages), "-c", str(CONSTRAINTS), str(wheel))
    version = metadata.Distribution.at(next(packages.glob("counterpoise-*.dist-info"))).version
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    DIST.mkdir(exist_ok=True)
    made = DIST / f"counterpoise-{version}-cp{sys.version_info[0]}{sys.version_info[1]}-{platform}"
    words = ["--site-packages", str(packages), "-c", "counterpoise", "--compressed"]
    python = f"/usr/bin/env python{sys.version_info[0]}.{sys.version_info[1]}"
    command = [sys.executable, "-m", "shiv", *words, "-p", python, "-o", str(made)]
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return made


def try_executable(wheel: Path, scratch: Path) -> str:
    """Make it, start it twice, and send each a message."""
    made = executable(wheel, scratch)
    environment = {**_environment(), "SHIV_ROOT": str(scratch / "unpacked")}
    # By its interpreter: a machine may have no command of that name.
    command = [sys.executable, str(made)]
    first, again = (first_message(command, environment) for _ in range(2))
    size = made.stat().st_size / 1e6
    return f"{made.name}: {size:.1f} MB, {first}; the second time {again}"


def try_uvx(wheel: Path, scratch: Path) -> str:
    """Start it by ``uvx`` with an empty cache and again, and send each a message."""
    uvx = str(_tools(scratch, UV) / "bin" / "uvx")
    environment = {**_environment(), "UV_CACHE_DIR": str(scratch / "uv")}
    words = ["--python", sys.executable, "--constraints", str(CONSTRAINTS)]
    command = [uvx, "--quiet", *words, "--from", str(wheel), "counterpoise"]
    first, again = (first_message(command, environment) for _ in range(2))
    return f"uvx: {first}; the second time {again}"


def _tools(scratch: Path, what: str) -> Path:
    there = scratch / what.partition("=")[0]
    _pip("--target", str(there), what)
    return there


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *words], check=True)


def _environment() -> dict[str, str]:
    """Nothing of this checkout's."""
    return {name: value for name, value in os.environ.items() if name not in _ONES_OWN}
