"""Runs the demo from start to end."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions
from counterpoise.app.demo.admin import create_namespace, owner_of
from counterpoise.app.demo.load import LoadGenerator, Tally
from counterpoise.app.demo.picture import draw
from counterpoise.app.demo.plan import (
    BALANCE_OPTIONS,
    BROKER_SETTINGS,
    BUNDLES,
    NAMESPACE,
    DemoOptions,
    skewed_loads,
    topics_by_bundle,
)
from counterpoise.app.demo.screen import Screen, decided, done, renamed
from counterpoise.app.demo.watch import DemoRecord, DemoWatcher

SAMPLE_EVERY_S = 1.0
FALL = 0.5
"""The fraction of its first value to which the imbalance has to fall."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo."""

    tally: Tally
    moves: int
    """The number of bundles that were moved."""
    before: float
    """The imbalance (largest broker ÷ mean - 1) before the first move."""
    after: float
    """The imbalance (largest broker ÷ mean - 1) at the end."""
    picture: Path
    """The file with the plot."""

    @property
    def problems(self) -> list[str]:
        """What went wrong in the demo, in sentences; empty if nothing did."""
        found = []
        if self.tally.lost:
            found.append(f"{self.tally.lost} acknowledged messages were never received")
        if not self.moves:
            found.append("the pipeline moved nothing (what it said is above)")
        elif self.after > self.before * FALL:
            found.append(
                f"the imbalance did not fall by half: {self.before:.2f}, then {self.after:.2f}"
            )
        if not self.tally.received:
            found.append("no message was received")
        return found


def run_demo(options: DemoOptions, screen: Screen) -> DemoResult:
    """Run the demo from start to end; no process is left running."""
    settings = LocalClusterOptions(
        brokers=options.brokers,
        settings=BROKER_SETTINGS,
        balance=True,
        balance_options=BALANCE_OPTIONS,
    )
    screen.say(f"starting ZooKeeper and {options.brokers} brokers; the leader will start Spark")
    began = time.monotonic()
    with LocalCluster(settings) as cluster:
        brokers = [broker.id for broker in cluster.brokers]
        names = {broker.id: broker.name for broker in cluster.brokers}
        screen.say(
            f"the cluster serves after {time.monotonic() - began:.1f} s: {cluster.service_url}"
        )
        create_namespace(cluster.admin_url, NAMESPACE, BUNDLES)
        topics = [topic for each in topics_by_bundle().values() for topic in each]
        owners = {topic: owner_of(cluster.admin_url, topic) for topic in topics}
        hot, loads = skewed_loads(owners, options.seed)
        generator = LoadGenerator(cluster.service_url, loads, cluster.data / "logs" / "client.log")
        screen.say(
            f"{len(topics)} topics in {BUNDLES} bundles; {names[hot]} gets most of the "
            f"{sum(load.messages_per_s for load in loads):.0f} messages/s"
        )
        watcher = DemoWatcher(brokers, cluster.options.history)
        generator.start()
        _watch(watcher, generator, screen, names, options)
        screen.say("the load ends; waiting for the last messages")
        tally = generator.stop(options.receive_s)
    record = watcher.record
    draw(record, brokers, options.picture)
    return DemoResult(tally, record.moves, record.before, record.now, options.picture)


def _watch(
    watcher: DemoWatcher,
    generator: LoadGenerator,
    screen: Screen,
    names: dict[str, str],
    options: DemoOptions,
) -> None:
    """Show what happens until the demo `is_over`."""
    record, tick = watcher.record, threading.Event()
    while True:
        news = watcher.sample()
        for line in news.log_lines:
            screen.say(f"balancer: {renamed(line, names)}")
        for row in news.decisions:
            screen.say(decided(row, names))
        for row in news.outcomes:
            screen.say(done(row, names))
        screen.show(record, generator.tally())
        elapsed = time.monotonic() - record.began_s
        if is_over(record, elapsed, options):
            return
        tick.wait(SAMPLE_EVERY_S)


def is_over(record: DemoRecord, elapsed: float, options: DemoOptions) -> bool:
    """Whether the demo can end after `elapsed` seconds of load.

    It can if the imbalance has halved and the balancer has decided nothing for a while, or if its
    time is up.
    """
    if record.first_round_s is None:
        return elapsed >= options.spark_s
    if elapsed - record.first_round_s >= options.limit_s:
        return True
    quiet = elapsed - record.decided_at_s >= options.quiet_s
    even = record.is_content and record.now <= record.before * FALL
    return bool(record.moves) and quiet and even
