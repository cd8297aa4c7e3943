"""The suite with which Apache tests its Go client, as far as it is about TLS and credentials.

It is Apache's and is not copied here: the module comes from the Go module proxy, with its tests and
their certificates. `build` changes nothing in it but the ports, which it gets from the environment.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.jars import cache

MODULE = "github.com/apache/pulsar-client-go"
VERSION = "0.19.0"
CASES = "^Test(TLS|HTTPS)"
BUILD_S = 1800
AT_ONCE = 7
SUITE = cache() / f"pulsar-client-go-{VERSION}"
FILES = SUITE / "integration-tests"
PACKAGES = {"go": "pulsar", "go-admin": "pulsaradmin/pkg/admin"}
"""The packages whose tests need a broker."""
_URL = re.compile(r'"([a-z+]+://(?:localhost|127\.0\.0\.1):)(6650|6651|8080|8443)"')
_CHANGED = ("helper_for_test.go", "client_impl_test.go")


def binary(suite: str = "go") -> Path:
    """The tests of a package, compiled."""
    return SUITE / PACKAGES[suite] / "suite.test"


def is_there() -> bool:
    """Whether the suite can be run."""
    return all(binary(suite).is_file() for suite in PACKAGES)


def build() -> bool:
    """Fetch and compile it, unless that is done; False without Go."""
    go = shutil.which("go")
    if go is None or is_there():
        return is_there()
    SUITE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SUITE.parent, prefix=SUITE.name) as scratch:
        listed = _run([go, "mod", "download", "-json", f"{MODULE}@v{VERSION}"], Path(scratch))
        made = Path(scratch) / "suite"
        # What Go keeps is for reading only.
        shutil.copytree(json.loads(listed)["Dir"], made, copy_function=shutil.copyfile)
        for folder in (made, *(each for each in made.rglob("*") if each.is_dir())):
            folder.chmod(0o755)
        for name in _CHANGED:
            _let_ports_be_chosen(made / "pulsar" / name)
        for suite, package in PACKAGES.items():
            compiled = f"{package}/{binary(suite).name}"
            _run([go, "test", "-c", "-o", compiled, f"./{package}"], made)
        shutil.rmtree(SUITE, ignore_errors=True)
        made.rename(SUITE)
    return True


def _run(command: list[str], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, timeout=BUILD_S, stdout=subprocess.PIPE, text=True
    ).stdout


def _let_ports_be_chosen(file: Path) -> None:
    text = _URL.sub(r'"\1" + os.Getenv("PORT_\2")', file.read_text())
    text = text.replace("const (\n\tserviceURL ", "var (\n\tserviceURL ", 1)
    if '\t"os"\n' not in text:
        text = text.replace("import (\n", 'import (\n\t"os"\n', 1)
    file.write_text(text)


def cases() -> list[str]:
    """The cases that are about TLS and credentials."""
    return _run([str(binary()), "-test.list", CASES], binary().parent).split()


def run(ports: dict[int, int]) -> dict[str, str]:
    """Run the cases against a broker, its ports by their usual ones; by case, why it failed.

    Several at once: those that are to fail wait for five seconds each.
    """
    environment = {**os.environ, **{f"PORT_{usual}": str(port) for usual, port in ports.items()}}

    def one(case: str) -> str:
        done = subprocess.run(
            [str(binary()), "-test.run", f"^{case}$", "-test.v", "-test.timeout", "60s"],
            cwd=binary().parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=70,
            check=False,
        )
        passed = done.returncode == 0 and f"--- PASS: {case}" in done.stdout
        return "" if passed else done.stdout + done.stderr

    found = cases()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return dict(zip(found, threads.map(one, found), strict=True))
