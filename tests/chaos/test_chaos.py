"""The short form of ``make chaos``: a few faults for each manager, always the same; and a run that
cannot go on.
"""

from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from counterpoise.app.clusters.processes import ChildFailedError
from counterpoise.ownership.protocols import PROTOCOLS
from tests.chaos import run as module
from tests.chaos.faults import Fault, Kind, plan
from tests.chaos.judges import complaints, figures
from tests.chaos.run import Run, Terms

SHORT = (Kind.KILL_LEADER, Kind.TRANSFER, Kind.SPLIT, Kind.FREEZE)


@pytest.mark.zookeeper
@pytest.mark.client
@pytest.mark.parametrize("manager", PROTOCOLS)
def test_nothing_is_lost_whatever_befalls_a_broker(manager: str, tmp_path: Path) -> None:
    printed: list[str] = []
    faults = islice(plan(1, SHORT), len(SHORT))
    terms = Terms(manager, seconds=60, every_s=0, session_s=1.5, topics_each_bundle=1)
    history = Run(terms, faults, tmp_path, printed.append).run()
    # How soon is for `make chaos`, which has the machine to itself: a client whose lookups meet the
    # frozen broker waits 3 s for each.
    found = [each for each in complaints(history) if not each.startswith("every_topic_is_soon")]
    assert not found, "\n".join([*printed, figures(history), *found])
    assert all(None not in fault.writable_s.values() for fault in history.faults)
    assert len(history.faults) == len(SHORT) + 1, "a freeze is seen twice: it comes, it ends"


class ClusterThatLosesABroker:
    """As much of `ChaosCluster` as a run uses; its broker does not come back."""

    service_url = "pulsar://127.0.0.1:1"

    def __init__(self) -> None:
        self.brokers = [SimpleNamespace(name="broker-1", id="127.0.0.1:2", alive=True)]
        self.bookies = 3
        self.stopped = False

    def __enter__(self) -> "ClusterThatLosesABroker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True

    def topics(self, _: int) -> list[str]:
        return ["persistent://public/chaos/t0"]

    def leader(self) -> SimpleNamespace:
        return self.brokers[0]

    def kill(self, broker: SimpleNamespace) -> None:
        broker.alive = False

    def restart(self, broker: SimpleNamespace) -> None:
        raise ChildFailedError(f"{broker.name} was not ready after 120 s: waiting for ZooKeeper")

    def active(self) -> list[str]:
        raise ConnectionRefusedError("no broker answers")

    def logs(self) -> dict[str, str]:
        return {"broker-1.log": "the last words of a broker\n"}

    def leftovers(self) -> list[str]:
        return [] if self.stopped else ["process 1 is still there"]


def test_a_broker_that_does_not_come_back_is_a_complaint_and_the_run_ends_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, printed = ClusterThatLosesABroker(), list[str]()

    def no_load(*_: object) -> SimpleNamespace:
        return SimpleNamespace(stop=lambda _: None, unfinished=dict, close=lambda: None)

    monkeypatch.setattr(module, "ChaosCluster", lambda *_, **__: cluster)
    monkeypatch.setattr(module, "Load", no_load)
    monkeypatch.setattr(module, "probe", lambda *_: dict)
    monkeypatch.setattr(module, "read_all", lambda *_: {})
    faults = [Fault(Kind.KILL_LEADER, 0, 0, 0.0)] * 2
    terms = Terms("any", seconds=3600, every_s=0)
    history = Run(terms, faults, tmp_path, printed.append).run()
    found = [each for each in complaints(history) if each.startswith("every_fault")]
    assert len(found) == 2, found
    assert "broker-1 was not ready after 120 s: waiting for ZooKeeper" in found[0]
    assert "no broker answers" in found[1]
    assert "the last words of a broker" in "".join(printed)
    assert cluster.stopped
