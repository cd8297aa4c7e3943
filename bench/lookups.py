"""Lookups and connections beside Pulsar's.

One broker each, that owns what is looked up. Lookups are asked by frames made beforehand, so that
the time is the broker's; over HTTP and connecting one after the other, half of it is the client's.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.jars import pulsar_lib

from bench._real_pulsar import free_ports
from bench.beside_pulsar import Servers, alternate, beside, client, one_broker_each, spread
from bench.figures import Figure
from counterpoise.app.clusters.throwaway import ThrowAwayAuthority

ROUNDS = 5
RATE = "a_second"
WHAT = {
    "lookups": "lookups, one connection",
    "http": "lookups over HTTP, one after the other",
    "connections": "connections, one after the other",
    "tls": "connections by TLS, one after the other",
}


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    seconds, rounds = (0.5, 1) if quick else (3.0, ROUNDS)
    with TemporaryDirectory(prefix="counterpoise-bench-") as text:
        return _beside(lib, ThrowAwayAuthority(Path(text)), seconds, rounds)


def _beside(
    lib: Path | None, authority: ThrowAwayAuthority, seconds: float, rounds: int
) -> list[Figure]:
    pair = authority.server()
    shown = {"tlsCertificateFilePath": str(pair.certificate), "tlsKeyFilePath": str(pair.key)}
    ports = dict(zip(("ours", "real"), free_ports(2), strict=True))
    settings = {name: {**shown, "brokerServicePortTls": str(port)} for name, port in ports.items()}
    options = (f"--seconds={seconds}", f"--trusted={authority.certificate}")
    figures = []
    with one_broker_each(lib, **settings) as servers:
        by_tls: Servers = {
            name: replace(server, service_url=f"pulsar+ssl://127.0.0.1:{ports[name]}")
            for name, server in servers.items()
        }
        for what, name in WHAT.items():
            asked = by_tls if what == "tls" else servers
            results = alternate(asked, rounds, client("bench._frames_lookups", what, *options))
            figure = beside(name, "a second", results, RATE, at_least=1.0)
            figures.append(replace(figure, note=spread(results, RATE)))
            cpu = {
                each: [{"us": 1e6 * run["cpu_s"] / run[RATE] / seconds} for run in runs]
                for each, runs in results.items()
            }
            figures.append(beside(f"processor time of one: {name}", "us", cpu, "us"))
    return figures
