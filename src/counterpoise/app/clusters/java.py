"""Finds a Java that can run Spark, ZooKeeper and bookies."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from counterpoise.app.errors import UserError

MINIMUM_VERSION = 17
"""Spark 4.3 needs Java 17 or later."""

INSTALL_ROOTS: tuple[Path, ...] = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))


def find_java(
    environ: Mapping[str, str] | None = None, roots: Sequence[Path] = INSTALL_ROOTS
) -> Path:
    """Find a ``java`` program: by ``JAVA_HOME``, then ``PATH``, then in the usual directories.

    Raises `UserError`, which says what to install, if there is none of version 17 or later.
    """
    environ = os.environ if environ is None else environ
    seen: list[str] = []
    for program in _candidates(environ, roots):
        version = java_version(program)
        if version is not None and version >= MINIMUM_VERSION:
            return program
        seen.append(f"{program} is version {version or 'unknown'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise UserError(
        f"Java {MINIMUM_VERSION} or later was not found{found}: install one, for example with "
        "'apt-get install openjdk-17-jre-headless', or set JAVA_HOME to where it is."
    )


def java_version(program: Path) -> int | None:
    """Return the feature release (17, 21, …) of a ``java`` program; None if it cannot be read.

    Reads the installation's ``release`` file, or else runs the program, which takes longer.
    """
    release = program.resolve().parent.parent / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if match is None:
        try:
            finished = subprocess.run(  # noqa: S603  a program found where Java lives
                [str(program), "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = re.search(r'version "([^"]+)"', finished.stderr + finished.stdout)
    return None if match is None else _feature_release(match[1])


def _feature_release(version: str) -> int | None:
    parts = re.findall(r"\d+", version)
    if not parts:
        return None
    # Up to Java 8 the feature release is the second number: 1.8.0_302.
    return int(parts[1]) if parts[0] == "1" and len(parts) > 1 else int(parts[0])


def _candidates(environ: Mapping[str, str], roots: Sequence[Path]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home and (program := Path(home) / "bin" / "java").is_file():
        yield program
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    for root in roots:
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from sorted(root.glob(pattern))
