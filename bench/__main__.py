"""Run benchmarks: all of them, or those named. `python -m bench --list` names them."""

import argparse
import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path

import bench
from bench.figures import Figure, table


def names() -> list[str]:
    # The agreement is a judge of its own, with its own options.
    skip = {"__main__", "agreement", "figures"}
    return sorted(
        m.name
        for m in pkgutil.iter_modules(bench.__path__)
        if m.name not in skip and not m.name.startswith("_")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    parser.add_argument("--out", type=Path, default=Path("artifacts/bench"), help="JSON and plots")
    args = parser.parse_args()
    if args.list:
        print("\n".join(names()))
        return 0
    unknown = set(args.name) - set(names())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))} (see --list)")
    args.out.mkdir(parents=True, exist_ok=True)
    everything: list[Figure] = []
    for name in args.name or names():
        started = time.perf_counter()
        print(f"== {name}", flush=True)
        figures = importlib.import_module(f"bench.{name}").run(quick=args.quick, out=args.out)
        everything += figures
        print(table(figures))
        print(f"   ({time.perf_counter() - started:.0f} s)\n", flush=True)
    (args.out / "figures.json").write_text(
        json.dumps([f.to_json() for f in everything], indent=1), encoding="utf-8"
    )
    short = [f for f in everything if f.holds is False]
    print(f"{len(everything)} figures, {len(short)} below their bar; {args.out}/figures.json")
    for figure in short:
        print(f"  falls short: {figure.name}: {figure.value:.4g} {figure.unit}, bar {figure.bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
