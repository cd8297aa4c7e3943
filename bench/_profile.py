"""Flame graphs of what Python does: while a broker takes messages, while it delivers them,
and in a balancing cycle of 1,000 brokers.

    python -m bench._profile [publish] [deliver] [cycle]

Each is a picture in docs/_static: wider is more of the interpreter's time, and a browser shows each
function's file at the pointer. py-spy samples from outside, so that all runs as it always does.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tests.waiting import answer_within

from bench._ours import Ours, up
from bench._processes import cpu_seconds

DOCS = Path(__file__).parents[1] / "docs" / "_static"
SECONDS = 10.0
RATE = 200
"""Samples a second."""
BEGUN_S = 0.1
"""A broker that has used so much processor time since its client was started is at work."""


def publish(server: Ours) -> list[str]:
    """The client to run while a broker takes messages, one entry each."""
    urls = ["--url", server.service_url, "--admin-url", server.admin_url]
    return ["bench._frames", *urls, "--messages=100000"]


def deliver(server: Ours) -> list[str]:
    """The client to run while a broker delivers to a Shared subscription, one entry each."""
    urls = ["--url", server.service_url, "--admin-url", server.admin_url]
    return ["bench._frames_consume", *urls, "--pid", str(server.pid), "--kind=shared"]


BROKERS: dict[str, Callable[[Ours], list[str]]] = {"publish": publish, "deliver": deliver}
WHATS = (*BROKERS, "cycle")


def profile(what: str, picture: Path, seconds: float = SECONDS) -> None:
    """Draw one; ``seconds`` of a broker's work, a cycle whole."""
    with tempfile.TemporaryDirectory(prefix="counterpoise-") as text:
        folder = Path(text)
        drawn = folder / "flame.svg"
        if what == "cycle":
            cycle = [sys.executable, "-m", "bench._alone", "cycle", str(folder)]
            _sampled(drawn, "--subprocesses", "--", *cycle)
        else:
            with up(folder / "ours", brokers=1) as server:
                pid = _broker(server)
                idle = cpu_seconds(pid)
                with _repeated(BROKERS[what](server)):
                    # What is sampled before the client has come is no work.
                    answer_within(lambda: cpu_seconds(pid) > idle + BEGUN_S, 60, 0.01)
                    _sampled(drawn, "--pid", str(pid), "--duration", f"{seconds:.0f}")
        svg = drawn.read_text(encoding="utf-8")
    picture.write_text(plain(svg, f"counterpoise: {what}"), encoding="utf-8")


def plain(svg: str, title: str) -> str:
    """A drawn picture without its script, and without this machine's paths."""
    svg = re.sub(r"<script.*?</script>|<!--.*?-->| onload=\"[^\"]*\"", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<text id="title"[^>]*>)[^<]*', rf"\g<1>{title}", svg)
    svg = re.sub(r'<text id="(search|matched|unzoom|details)".*?</text>', "", svg)
    return re.sub(r"process \d+:&quot;([^<]*&quot;|[^<]*)", _process, svg)


def _process(found: "re.Match[str]") -> str:
    module = re.search(r"-m ([\w.]+)", found[1])
    return f"process: {module[1]}" if module else "process"


def _sampled(drawn: Path, *what: str) -> None:
    sampler = Path(sys.executable).with_name("py-spy")
    # Without --gil, threads that wait for work or for the disk would be most of it.
    options = ["record", "--gil", "--function", "--rate", str(RATE)]
    options += ["--format", "flamegraph", "--output", str(drawn)]
    done = subprocess.run(
        [str(sampler), *options, *what], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode or not drawn.exists():
        raise SystemExit(f"py-spy drew nothing: {done.stderr.strip()}")


def _broker(server: Ours) -> int:
    """The broker's process, one of those that `counterpoise up` has started."""
    for each in psutil.Process(server.pid).children(recursive=True):
        if "broker" in each.cmdline():
            return each.pid
    raise SystemExit("no broker runs")


@contextmanager
def _repeated(client: list[str]) -> Iterator[None]:
    """A client that is started again as long as the block runs."""
    again = [sys.executable, "-c", _AGAIN, sys.executable, "-m", *client]
    with subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()


_AGAIN = """
import select, subprocess, sys
while not select.select([sys.stdin], [], [], 0)[0]:
    subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, check=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench._profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", choices=[*WHATS, []], help="default: all")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pictures")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a broker's work")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for what in args.what or WHATS:
        picture = args.out / f"flame-{what}.svg"
        profile(what, picture, args.seconds)
        print(picture, flush=True)


if __name__ == "__main__":
    main()
