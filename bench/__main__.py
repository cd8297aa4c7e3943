"""Run benchmarks, each in a process of its own: all of them, or those named.

Figures go to OUT/NAME.json, and those of every benchmark that was run there to OUT/figures.json.
A benchmark that fails is a line in the summary; the others run.
"""

import argparse
import contextlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench
from bench._page import page

DOCS = Path(__file__).parents[1] / "docs" / "PERFORMANCE.md"


@dataclass(frozen=True, slots=True)
class Failure:
    """A benchmark that gave no figures, and why."""

    name: str
    reason: str


def names() -> list[str]:
    """Every benchmark; what begins with an underscore is shared by several."""
    modules = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    return sorted(name for name in modules if name != "figures" and not name.startswith("_"))


def run(name: str, out: Path, *, quick: bool, limit_s: float) -> Failure | None:
    """Run one benchmark in a process group of its own, and end whatever it leaves behind."""
    command = [sys.executable, "-m", "bench._alone", name, str(out), *["--quick"] * quick]
    (out / f"{name}.json").unlink(missing_ok=True)
    process = None
    try:
        with deferred(signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                command, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
            )
        _, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Failure(name, f"was ended after {limit_s:.0f} s (--minutes)")
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
    if process.returncode == 0:
        return None
    (out / f"{name}.stderr").write_text(errors, encoding="utf-8")
    last = (errors.strip().splitlines() or ["no message"])[-1]
    return Failure(name, f"status {process.returncode}: {last} (all of it: {out}/{name}.stderr)")


@contextlib.contextmanager
def deferred(*signals: signal.Signals) -> Iterator[None]:
    """Handle signals at the end of the block that arrive within it.

    A handler that raises while a process is being started would lose the process. The signals are
    not blocked: a child would inherit that.
    """
    arrived: list[int] = []
    handlers = {
        each: signal.signal(each, lambda number, frame: arrived.append(number)) for each in signals
    }
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in arrived:
            signal.raise_signal(number)


def measured(out: Path) -> list[dict[str, Any]]:
    """What each benchmark measured when it last ran to its end, in order of names."""
    files = [out / f"{name}.json" for name in names()]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    parser.add_argument("--minutes", type=float, default=30.0, help="limit for each (default: 30)")
    parser.add_argument("--out", type=Path, default=Path("artifacts/bench"), help="JSON and plots")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="run nothing: write docs/PERFORMANCE.md from the figures in OUT",
    )
    args = parser.parse_args()
    if args.list:
        print("\n".join(names()))
        return 0
    if args.docs:
        DOCS.write_text(page(measured(args.out)), encoding="utf-8")
        return 0
    if unknown := set(args.name) - set(names()):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))} (see --list)")
    args.out = args.out.resolve()  # programs that run elsewhere are given paths below it
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what runs, as Ctrl-C does
    failures = []
    for name in args.name or names():
        print(f"== {name}", flush=True)
        if failure := run(name, args.out, quick=args.quick, limit_s=args.minutes * 60):
            failures.append(failure)
            print(f"   failed: {failure.reason}", flush=True)
    everything = measured(args.out)
    (args.out / "figures.json").write_text(json.dumps(everything, indent=1), encoding="utf-8")
    ran = set(args.name or names())
    figures = [each for one in everything if one["benchmark"] in ran for each in one["figures"]]
    short = [each for each in figures if each["holds"] is False]
    print(
        f"\n{len(figures)} figures, {len(short)} below their bar, "
        f"{len(failures)} benchmarks failed; {args.out}/figures.json"
    )
    for each in short:
        print(f"  falls short: {each['name']}: {each['value']:.4g} {each['unit']}, {each['bar']}")
    for failure in failures:
        print(f"  failed: {failure.name}: {failure.reason}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("ended; figures of the benchmarks that ran are kept")
