"""Lookups and connections beside Pulsar's.

One broker each, that owns what is looked up. Lookups are asked by frames made beforehand, so that
the time is the broker's; over HTTP and connecting one after the other, half of it is the client's.
"""

from dataclasses import replace
from pathlib import Path

from tests.conformance.jars import pulsar_lib

from bench.beside_pulsar import alternate, beside, client, one_broker_each, spread
from bench.figures import Figure

ROUNDS = 5
RATE = "a_second"
WHAT = {
    "lookups": "lookups, one connection",
    "http": "lookups over HTTP, one after the other",
    "connections": "connections, one after the other",
}


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    seconds, rounds = (0.5, 1) if quick else (3.0, ROUNDS)
    with one_broker_each(lib) as servers:
        figures = []
        for what, name in WHAT.items():
            measure = client("bench._frames_lookups", what, f"--seconds={seconds}")
            results = alternate(servers, rounds, measure)
            figure = beside(name, "a second", results, RATE, at_least=1.0)
            figures.append(replace(figure, note=spread(results, RATE)))
            cpu = {
                each: [{"us": 1e6 * run["cpu_s"] / run[RATE] / seconds} for run in runs]
                for each, runs in results.items()
            }
            figures.append(beside(f"processor time of one: {name}", "us", cpu, "us"))
    return figures
