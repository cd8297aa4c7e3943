"""The short form of `make real ARGS=--soak`: the same judge, on brokers of our own in processes.

Two of the three brokers are ended and come back under a changing load, while `balance --execute
--watchdog` works in seconds where it takes minutes by default.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions
from counterpoise.names.load_managers import EXTENSIBLE
from tests.ports import free_ports
from tests.real.soak import Soak, SoakPlan

pytestmark = [
    pytest.mark.spark, pytest.mark.client, pytest.mark.zookeeper, pytest.mark.timeout(600),
]  # fmt: skip

BROKERS = 3
PLAN = SoakPlan(
    seconds=14.0,
    restart_every_s=5.5,
    away_s=(1.0,),
    phase_s=6.0,
    messages_a_second=150.0,
    namespaces=1,
    bundles=16,
    balance=("--interval", "500ms", "--decide-every", "2s", "--grace-period", "10s"),
    grace_s=10.0,
    settle_s=60.0,
    calm_s=3.0,
)


class OwnBrokers:
    """Brokers of a local cluster, ended and started again."""

    def __init__(self, local: LocalCluster) -> None:
        self._local = local
        self.web_urls = [each.admin_url for each in local.brokers]
        self.service_url = local.service_url

    def stop_broker(self, index: int, how: signal.Signals) -> None:
        """See `RestartableCluster`."""
        child = self._local.brokers[index].child
        if how is signal.SIGKILL:
            child.kill()
        else:
            child.stop()

    def start_broker(self, index: int) -> None:
        """See `RestartableCluster`."""
        self._local.restart(self._local.brokers[index])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OwnBrokers]:
    base = free_ports(2 * BROKERS)
    options = LocalClusterOptions(
        brokers=BROKERS,
        data=tmp_path / "cluster",
        settings={
            "loadManagerClassName": EXTENSIBLE,
            "loadBalancerSheddingEnabled": "false",
            "loadBalancerReportUpdateMinIntervalMillis": "500",
            "statsUpdateFrequencyInSecs": "1",
            "metadataStoreSessionTimeoutMillis": "3000",
        },
        first_port=base,
        first_web_port=base + BROKERS,
    )
    with LocalCluster(options) as local:
        yield OwnBrokers(local)


def test_a_balancer_that_executes_beside_restarts_does_no_harm(
    brokers: OwnBrokers, tmp_path: Path
) -> None:
    soak = Soak(tmp_path, brokers, PLAN)
    soak.run()
    assert soak.failed == []
    assert len(soak.outages) == 2
