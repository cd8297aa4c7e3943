"""Installs the wheel as users do, by pip from an index, and uses it: `make release`.

Makes the executable of one file in ``dist/``, too, and starts it, and the wheel by ``uvx``.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.release.one_file import Trial, try_executable, try_uvx
from tests.release.wheel import EXTRAS, ROOT, build

PYTHONS = ("3.11", "3.12", "3.13")
USE = Path(__file__).parent / "use.py"


def main() -> int:
    """Try every Python with every extra; 1 if any of it failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument(
        "--python", action="append", metavar="X", help="3.12, or where it is (default: all found)"
    )
    parser.add_argument("--extra", action="append", choices=EXTRAS, help="default: all of them")
    parser.add_argument("--only", choices=("wheel", "executable", "uvx"), help="default: all")
    parser.add_argument("--latest", action="store_true", help="newest packages, not those tested")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="counterpoise-release-") as scratch:
        wheel = build(Path(scratch))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for name, trial in (("executable", try_executable), ("uvx", try_uvx)):
            if args.only in (None, name):
                said, good = _said(trial, wheel, Path(scratch))
                print(said, flush=True)
                failed += not good
        for version in (args.python or PYTHONS) if args.only in (None, "wheel") else ():
            python = _python(version)
            if python is None:
                print(f"Python {version}: none here, not tried", flush=True)
                continue
            for extra in args.extra or EXTRAS:
                said, good = _try(python, wheel, extra, Path(scratch), latest=args.latest)
                print(f"Python {version}, {extra or 'nothing more'}: {said}", flush=True)
                failed += not good
    return int(failed > 0)


def _said(trial: Trial, wheel: Path, scratch: Path) -> tuple[str, bool]:
    try:
        return trial(wheel, scratch), True
    except (RuntimeError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or b""
        return f"{error} {output.decode()[-500:]}", False


def _python(version: str) -> str | None:
    named = shutil.which(version if "/" in version else f"python{version}")
    # A version manager's may not start by its name; where pyenv keeps them it does.
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (named, *sorted(map(str, kept.glob(f"{version}.*/bin/python")))):
        if found is None:
            continue
        started = subprocess.run([found, "-c", ""], capture_output=True, check=False)
        if started.returncode == 0:
            return found
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return sys.executable if version == here else None


def _try(python: str, wheel: Path, extra: str, scratch: Path, *, latest: bool) -> tuple[str, bool]:
    there = scratch / "there"
    shutil.rmtree(there, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(there)], check=True)
    mine = str(there / "bin" / "python")
    [packages] = there.glob("lib/python*/site-packages")
    before = _size(packages)
    began = time.monotonic()
    command = [mine, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not latest:
        command += ["-c", str(ROOT / "constraints.txt")]
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    installed = subprocess.run([*command, what], capture_output=True, text=True, check=False)
    if installed.returncode:
        return f"pip failed: {installed.stderr.strip()[-500:]}", False
    took, size = time.monotonic() - began, (_size(packages) - before) / 1e6
    used = subprocess.run(
        [mine, "-I", str(USE), extra], cwd=scratch, capture_output=True, text=True, check=False
    )
    if used.returncode:
        return f"it cannot be used: {used.stderr.strip()[-1500:]}", False
    verbs = json.loads(used.stdout)["verbs"]
    return f"{size:.0f} MB, installed in {took:.0f} s, {verbs} verbs, a cluster served", True


def _size(directory: Path) -> int:
    """Bytes of all files, without what Python compiles by itself."""
    files = (path for path in directory.rglob("*") if "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
