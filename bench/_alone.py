"""Run one benchmark in this process and write what it measured to OUT/NAME.json."""

import argparse
import importlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from bench._machine import machine
from bench.figures import Figure, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench._alone", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    started = time.perf_counter()
    module = importlib.import_module(f"bench.{args.name}")
    figures: list[Figure] = module.run(quick=args.quick, out=args.out)
    print(table(figures))
    measured = {
        "benchmark": args.name,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "quick": args.quick,
        "seconds": round(time.perf_counter() - started, 1),
        "figures": [figure.to_json() for figure in figures],
    }
    (args.out / f"{args.name}.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
