"""Strategies beside each other on a real Pulsar: the same start, the same load, the same seed.

Each has a fresh cluster of three brokers, all load on one of them, and busiest topics that change
every four minutes. Pulsar's strategies are its own leader's; Counterpoise is `balance --execute` at
its defaults. How even the brokers are is known from outside: who owns each topic, and its part of
the load.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from bench._real_pulsar import cluster

from tests.real.load import weights_of
from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, counted, load, settings
from tests.real.record import OF_MANAGER, PHASE_S
from tests.real.story import SHEDDING, Story, bring_all_to

OURS = "Counterpoise"
COMPARED = {
    "modular": (OURS, "UniformLoadShedder", "AvgShedder"),
    "extensible": (OURS, "TransferShedder"),
}
CLASSES = "org.apache.pulsar.broker.loadbalance.impl."
EVERY_S = 10


def compare(lib: Path, home: Path, manager: str, minutes: float, seed: int) -> int:
    """Print a row for each strategy; gives how many of them lost a message."""
    rows, lost = [], 0
    for strategy in COMPARED[manager]:
        row, missing = _played(lib, home / strategy, manager, strategy, minutes, seed)
        rows.append(row)
        lost += bool(missing)
        print("\n".join(["", *HEAD, *rows]), flush=True)
    return lost


HEAD = (
    "| manager | strategy | largest ÷ mean, on average | in the last minute of each load | moves "
    "| redelivered |",
    "| --- | --- | --- | --- | --- | --- |",
)


def _played(
    lib: Path, home: Path, manager: str, strategy: str, minutes: float, seed: int
) -> tuple[str, int]:
    conf = settings(
        manager,
        **{SHEDDING: "false", "loadBalancerSheddingIntervalMinutes": 1},
        statsUpdateFrequencyInSecs=60,
        **OF_MANAGER[manager],
    )
    if strategy != OURS and manager == "modular":
        conf["loadBalancerLoadSheddingStrategy"] = CLASSES + strategy
    if strategy == "AvgShedder":  # It places as well, and sheds nothing under another placement.
        conf["loadBalancerLoadPlacementStrategy"] = CLASSES + strategy
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        story = Story(home, Cluster(pulsar.web_urls, NAMESPACE))
        words = ("balance", "--strategy", OURS, "--execute") if strategy == OURS else ("watch",)
        works = story.begin(
            *words, "--admin-url", ",".join(pulsar.web_urls), "--history", story.history
        )
        try:
            if strategy == OURS:  # Spark takes its time to start, and no leader of Pulsar waits.
                story.check("it is up", works.wait_for("its first batch runs", 150))
            with load(pulsar.service_url, home, PHASE_S, seed) as made:
                began = time.monotonic()
                story.check("all load is on one broker", bring_all_to(story, story.real.brokers[0]))
                if strategy != OURS:
                    story.real.set_dynamic(SHEDDING, "true")
                seen = _watched(story, began, minutes, seed)
                found = counted(made)
        finally:
            works.end()
    share = f"{found['redelivered'] / found['received']:.3%}"
    cells = manager, strategy, f"{seen.mean:.3f}", f"{seen.settled:.3f}", str(seen.moves), share
    return f"| {' | '.join(cells)} |", found["lost"]


class Seen:
    """What was seen from outside, a sample at a time."""

    def __init__(self) -> None:
        self.moves = 0
        self._ratios: list[float] = []
        self._settled: list[float] = []
        self._owners: Mapping[str, list[str]] = {}

    def add(self, owners: Mapping[str, list[str]], ratio: float, phase_at_s: float) -> None:
        """A sample, so long after the load changed."""
        self.moves += sum(owners[each] != was for each, was in self._owners.items())
        self._owners = owners
        self._ratios.append(ratio)
        if phase_at_s > PHASE_S - 60:
            self._settled.append(ratio)

    @property
    def mean(self) -> float:
        """Of all."""
        return sum(self._ratios) / max(1, len(self._ratios))

    @property
    def settled(self) -> float:
        """Of those a minute or less before the load changed."""
        return sum(self._settled) / max(1, len(self._settled))


def _watched(story: Story, began: float, minutes: float, seed: int) -> Seen:
    seen, end = Seen(), time.monotonic() + 60 * minutes
    while (now := time.monotonic()) < end:
        phase, at_s = divmod(now - began, PHASE_S)
        weights = weights_of(int(phase), seed)
        seen.add(story.real.owners(), 1 + story.real.imbalance(weights), at_s)
        story.wait(EVERY_S - (time.monotonic() - now))
    return seen
