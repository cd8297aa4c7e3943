"""A stranger's first hour, from a clean environment, with a watch: `make stranger`.

What is typed is what the documentation says: a test of one's own, a cluster on this machine, advice
about one's own cluster. `walk` is that; here it is preceded by what pip takes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.page import File, read_page
from tests.release.wheel import ROOT, build

TEST = "test_orders.py"
SEND = """
import sys, pulsar
client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
client.create_producer("greetings").send(b"hello")
client.close()
"""
LIMIT_S = 300
Say = Callable[[str, float], None]
"""Hears of each step, and how many seconds it took."""


def main() -> int:
    """Install, walk, and report; 1 when something did not work."""
    with tempfile.TemporaryDirectory(prefix="counterpoise-stranger-") as directory:
        scratch = Path(directory)
        wheel = build(scratch)
        began = time.monotonic()

        def say(what: str, seconds: float) -> None:
            print(f"{seconds:6.1f} s  {time.monotonic() - began:6.1f} s  {what}", flush=True)

        print("   took     since  step")
        python = scratch / "there" / "bin" / "python"
        try:
            with _timed(say, "a virtual environment"):
                _run([sys.executable, "-m", "venv", str(scratch / "there")], scratch)
            with _timed(say, "pip install counterpoise pulsar-client pytest"):
                _pip(python, scratch, str(wheel), "pulsar-client", "pytest")
            first_test(python, scratch, say)
            local_cluster(python, scratch, say)
            with _timed(say, "pip install 'counterpoise[pipeline]'"):
                _pip(python, scratch, f"{wheel}[pipeline]")
            advice(python, scratch, say)
        except StumbleError as error:
            print(error)
            return 1
    return 0


class StumbleError(RuntimeError):
    """Something that the documentation promises did not work; the message is what was said."""


def first_test(python: Path, scratch: Path, say: Say) -> None:
    """The test that the documentation begins with, by pytest."""
    page = read_page(ROOT / "docs" / "start" / "in-a-test.md")
    [text] = [step.text for step in page.steps if isinstance(step, File) and step.name == TEST]
    (scratch / TEST).write_text(text, "utf-8")
    with _timed(say, f"pytest {TEST}: the first passing test"):
        _run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST], scratch)


def local_cluster(python: Path, scratch: Path, say: Say) -> None:
    """A cluster here, and the first message that it acknowledges."""
    began = time.monotonic()
    with _up(python, scratch) as addresses:
        say("counterpoise up: it serves", time.monotonic() - began)
        with _timed(say, "the official client's first message is acknowledged"):
            _run([str(python), "-c", SEND, addresses["service_url"]], scratch)


def advice(python: Path, scratch: Path, say: Say) -> None:
    """What to move in a cluster of one's own, and why."""
    with _up(python, scratch) as addresses:
        _run([str(python), "-c", SEND, addresses["service_url"]], scratch)
        with _timed(say, "counterpoise advise: the first advice about one's own cluster"):
            words = ["-m", "counterpoise", "advise", "--admin-url", addresses["admin_url"]]
            said = _run([str(python), *words], scratch)
    if "why not the rest" not in said:
        raise StumbleError(f"the advice gives no reasons:\n{said}")


@contextmanager
def _up(python: Path, scratch: Path) -> Iterator[dict[str, str]]:
    argv = [str(python), "-m", "counterpoise", "up", "--json"]
    with subprocess.Popen(
        argv, cwd=scratch, env=_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if not (line := process.stdout.readline()):
                raise StumbleError("counterpoise up ended before it served")
            yield json.loads(line)
        finally:
            process.terminate()


@contextmanager
def _timed(say: Say, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    say(what, time.monotonic() - began)


def _run(argv: list[str], scratch: Path) -> str:
    done = subprocess.run(
        argv,
        cwd=scratch,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise StumbleError(f"$ {' '.join(argv)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _pip(python: Path, scratch: Path, *what: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    _run([str(python), "-m", "pip", "install", *options, *what], scratch)


def _environment() -> dict[str, str]:
    """Nothing of this checkout's."""
    ours = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in ours}


if __name__ == "__main__":
    sys.exit(main())
