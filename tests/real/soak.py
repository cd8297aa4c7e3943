"""Hours of `balance --execute --watchdog` under a changing load, with brokers that are restarted.

Brokers are killed and stopped in turn. What the balancer and its watchdog did is held against what
the soak knows: when which broker was away, what became of every message, which broker owned what.
"""

import json
import re
import signal
import subprocess
import threading
import time
import urllib.error
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from bench._real_pulsar import RealPulsar, cluster

from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.views import parts
from tests.real.load import topics_of
from tests.real.observer import Cluster, call
from tests.real.parts import CLASSES, counted, counterpoise, environment, load
from tests.real.soak_judgement import (
    Alert,
    Outage,
    OwnerChange,
    SoakMove,
    alerts_in,
    early_returns,
    false_alarms,
    figures_of,
    unexplained_changes,
)
from tests.real.story import Story
from tests.waiting import answer_within

SERVES_WITHIN_S = 240
DECIDED = re.compile(r" decided | nothing to move")
MOVED = re.compile(r" moved \S+ after ")


class RestartableCluster(Protocol):
    """Brokers, by their place, that can be ended and started again at their addresses."""

    @property
    def web_urls(self) -> Sequence[str]:
        """The admin address of each."""

    @property
    def service_url(self) -> str:
        """All of them, for a client."""

    def stop_broker(self, index: int, how: signal.Signals) -> None:
        """Send a broker a signal, and return when it has ended."""

    def start_broker(self, index: int) -> None:
        """Start a broker that ended."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How long, how much, and what is restarted when."""

    seconds: float
    restart_every_s: float = 600.0
    away_s: Sequence[float] = (90.0, 20.0)
    """For how long a broker is away, in turns: longer than its session, and shorter."""
    phase_s: float = 720.0
    """The busiest topics change after so long."""
    messages_a_second: float = 200.0
    """Of each of the two clients."""
    namespaces: int = 2
    """Those with an odd number are the one client's, the others the other one's."""
    bundles: int = 24
    """Of each namespace."""
    balance: Sequence[str] = ()
    """Besides `--execute --watchdog`: nothing, since the settings to judge are the defaults."""
    grace_s: float = 1800.0
    """As `loadBalancerSheddingGracePeriodMinutes` says, or `--grace-period`."""
    settle_s: float = 120.0
    """How long after a broker serves again something of its absence may be seen."""
    calm_s: float = 180.0
    """Without a restart, before the end."""

    @property
    def names(self) -> list[str]:
        """The namespaces."""
        return [f"public/soak{number + 1}" for number in range(self.namespaces)]


class RealBrokers:
    """Brokers of Apache Pulsar, ended and started again."""

    def __init__(self, pulsar: RealPulsar) -> None:
        assert pulsar.children is not None
        self._children = pulsar.children
        self.web_urls = pulsar.web_urls
        self.service_url = pulsar.service_url

    def stop_broker(self, index: int, how: signal.Signals) -> None:
        """See `RestartableCluster`."""
        self._children.stop(f"broker{index}", how)

    def start_broker(self, index: int) -> None:
        """See `RestartableCluster`."""
        self._children.start_broker(index)


def soak(lib: Path, home: Path, manager: str, plan: SoakPlan) -> int:
    """Gives the number of checks that failed; every setting of the brokers is Pulsar's default."""
    name, shedder = CLASSES[manager]
    conf = {
        "loadManagerClassName": name,
        "loadBalancerLoadSheddingStrategy": shedder,
        "loadBalancerSheddingEnabled": "false",
    }
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        failed = Soak(home, RealBrokers(pulsar), plan).run()
    print(f"== {manager}: {failed} checks failed", flush=True)
    return failed


class StampedCommand:
    """A command whose lines are kept with the time at which each came, in milliseconds."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        log.touch()  # Its lines may be asked for before the first one comes.
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(),
            cwd=log.parent, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("w", buffering=1) as file:
            for line in self.process.stdout:
                file.write(f"{now_ms()} {line}")

    def end(self, seconds: float = 90) -> int:
        """Stop it, and give its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def lines(self) -> list[tuple[int, str]]:
        """When each line came, and what it says."""
        text = self.log.read_text(errors="replace").splitlines()
        return [(int(at), line) for at, _, line in (each.partition(" ") for each in text)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Soak:
    """One run; each check is a line, and those that fail are kept."""

    def __init__(self, home: Path, cluster: RestartableCluster, plan: SoakPlan) -> None:
        self.home = home
        self.cluster = cluster
        self.plan = plan
        self.history = home / "history"
        self.failed: list[str] = []
        self.outages: list[Outage] = []
        self._views = [Cluster(cluster.web_urls, each) for each in plan.names]
        self._began = time.monotonic()

    def run(self) -> int:
        """Give the number of checks that failed."""
        plan, cluster = self.plan, self.cluster
        for namespace in plan.names:
            call(f"{cluster.web_urls[0]}/admin/v2/namespaces/{namespace}",
                 {"bundles": {"numBundles": plan.bundles}}, "PUT")  # fmt: skip
        balance = StampedCommand(
            counterpoise(
                "balance", "--admin-url", ",".join(cluster.web_urls),
                "--history", str(self.history), "--execute", "--watchdog", *plan.balance,
            ),
            self.home / "balance.txt",
        )  # fmt: skip
        with ExitStack() as stack:
            stack.callback(balance.end)
            loads = [
                stack.enter_context(
                    load(cluster.service_url, self.home, plan.phase_s, 100 * number,
                         ",".join(plan.names[number::2]), plan.messages_a_second)
                )
                for number in range(min(2, plan.namespaces))
            ]  # fmt: skip
            self._until(balance, DECIDED)  # Spark takes its time to start
            self._began = time.monotonic()
            self._restarts()
            self._until(balance, MOVED)
            running = balance.process.poll() is None
            status = balance.end()
            self.check("the balancer ran to the end", running and status == 0, status)
            self.check(
                "every broker answers lookups, and each bundle has one owner", self._healthy()
            )
            found = [counted(each) for each in loads]
        lost = sum(each["lost"] + each["failed"] for each in found)
        self.check("no message is lost", not lost, found)
        self._judge(balance.lines())
        return len(self.failed)

    def _until(self, balance: StampedCommand, said: re.Pattern[str]) -> None:
        """Wait until the balancer has said it, has ended, or the time is up."""
        answer_within(
            lambda: (
                balance.process.poll() is not None
                or any(said.search(line) for _, line in balance.lines())
            ),
            SERVES_WITHIN_S,
        )

    def check(self, what: str, holds: object, seen: object = "") -> None:
        """Print a verdict, and keep it when it is bad."""
        verdict = "ok    " if holds else "FAILED"
        self._say(f"{verdict} {what}{f': {seen}' if seen != '' else ''}")
        if not holds:
            self.failed.append(what)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s {text}", flush=True)

    def _restarts(self) -> None:
        plan, end = self.plan, self._began + self.plan.seconds
        number = 0
        while True:
            # The first one comes once the balancer has seen the cluster, and moved something.
            due = self._began + (number + 0.7) * plan.restart_every_s
            away_s = plan.away_s[number // 2 % len(plan.away_s)]
            if due + away_s + plan.calm_s > end:
                Story.wait(end - time.monotonic())
                return
            Story.wait(due - time.monotonic())
            how = (signal.SIGKILL, signal.SIGTERM)[number % 2]
            self._restart(number % len(self.cluster.web_urls), how, away_s)
            number += 1

    def _restart(self, index: int, how: signal.Signals, away_s: float) -> None:
        url = self.cluster.web_urls[index]
        broker = self._views[0].brokers[index]
        from_ms = now_ms()
        self.cluster.stop_broker(index, how)
        gone_ms = now_ms()
        Story.wait(away_s)
        started_ms = now_ms()
        self.cluster.start_broker(index)
        serves = self._serves(url)
        self.outages.append(Outage(broker, how.name, from_ms, gone_ms, started_ms, now_ms()))
        took = (now_ms() - started_ms) / 1000
        self.check(f"{broker} serves again after {how.name} and {away_s:.0f} s away", serves,
                   f"{took:.0f} s after its start")  # fmt: skip
        rows = [asdict(each) for each in self.outages]
        (self.home / "outages.json").write_text(json.dumps(rows, indent=1))

    def _serves(self, url: str) -> bool:
        """Whether a broker answers a lookup of a topic in time."""
        path = topics_of(self.plan.names[0])[0].replace("://", "/")

        def answers() -> bool:
            try:
                call(f"{url}/lookup/v2/topic/{path}", within=5)
            except (OSError, ValueError):
                return False
            return True

        return bool(answer_within(answers, SERVES_WITHIN_S))

    def _healthy(self) -> bool:
        def all_owned_once() -> bool:
            try:
                owned = [each.owners().values() for each in self._views]
            except (OSError, urllib.error.URLError) as error:
                self._say(f"a lookup failed: {error}")
                return False
            return all(len(names) == 1 for some in owned for names in some)

        return bool(answer_within(all_owned_once, self.plan.settle_s, 1))

    def _judge(self, lines: Sequence[tuple[int, str]]) -> None:
        moves = [
            SoakMove(row["bundle"], row["source"], row["owner"], int(row["started_at_ms"]),
                     int(row["ended_at_ms"]))
            for row in self._table("outcomes")
            if row["status"] in ("moved", "elsewhere", "unowned")
        ]  # fmt: skip
        self._say(f"{len(moves)} bundles moved in {len(self.outages)} restarts")
        self.check("bundles were moved", moves)
        early = early_returns(moves, round(self.plan.grace_s * 1000))
        self.check("no bundle moved twice within its grace period", not early, early[:5])
        settle_ms = round(self.plan.settle_s * 1000)
        alerts: list[Alert] = alerts_in(lines)
        for each in alerts:
            self._say(f"the watchdog said: {each.text}")
        wrong = false_alarms(alerts, self.outages, settle_ms)
        self.check(f"none of {len(alerts)} alarms was false", not wrong, [w.text for w in wrong])
        missed = [
            each
            for each in self.outages
            if each.serves_ms - each.from_ms > settle_ms
            and not any(each.from_ms <= a.at_ms <= each.serves_ms + settle_ms for a in alerts)
        ]
        self._say(f"{len(missed)} absences longer than {settle_ms / 1000:.0f} s without an alarm")
        changes = [
            OwnerChange(row["bundle"], row["source"], row["destination"], int(row["poll_id"]))
            for row in self._table("ownership_changes")
            if row["source"]
        ]
        unknown = unexplained_changes(changes, moves, self.outages, settle_ms)
        self.check(f"each of {len(changes)} changes of owner was a move, or a broker's end",
                   not unknown, unknown[:5])  # fmt: skip
        figures = figures_of(self._table("decisions"), self._table("reports"))
        off = [each for each in figures if each.is_off]
        decided = len({each.decision for each in figures})
        self.check(f"each of {len(figures)} figures of {decided} decisions is what was measured",
                   not off, off[:5])  # fmt: skip
        failed = [row for row in self._table("outcomes") if row["status"] == "failed"]
        for row in failed:
            self._say(
                f"failed: {row['bundle']} {row['source']} -> {row['destination']}: {row['error']}"
            )

    def _table(self, name: str) -> list[Mapping[str, Any]]:
        reader = TablesReader(open_location(str(self.history)))
        rows = pa.concat_tables(parts(reader, name, first_ms=0, last_ms=EVER))
        found: list[Mapping[str, Any]] = rows.to_pylist()
        return found
