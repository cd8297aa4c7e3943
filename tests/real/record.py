"""A real leader at work: its own shedder on, its load recorded, and what we would have done."""

import time
from pathlib import Path

from bench._real_pulsar import cluster

from tests.real.parts import NAMESPACE, Started, counted, counterpoise, load, settings
from tests.real.sight import call

PHASE_S = 240


def record(lib: Path, home: Path, manager: str, minutes: float, seed: int) -> None:
    """Record for so long; the busiest topics change every four minutes."""
    conf = settings(
        manager,
        loadBalancerSheddingIntervalMinutes=1,
        loadBalancerSheddingGracePeriodMinutes=3,
        loadBalancerDebugModeEnabled="true",
        # Brokers of one busy machine are all overloaded, and then chance decides everything.
        loadBalancerCPUResourceWeight=0,
        loadBalancerMemoryResourceWeight=0,
        loadBalancerDirectMemoryResourceWeight=0,
        loadBalancerBandwidthInResourceWeight=0,
        loadBalancerBandwidthOutResourceWeight=0,
    )
    with cluster(lib, home, 3, "info", **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        with load(pulsar.service_url, home, PHASE_S, seed) as made:
            watch = Started(
                counterpoise("watch", "--admin-url", pulsar.admin_url,
                             "--history", str(home / "history"), "--interval", "2s"),
                home / "watch.txt",
            )  # fmt: skip
            time.sleep(minutes * 60)
            print("watch ended with", watch.end())
            print(counted(made))
        print(f"python -m tests.real.agreement {home / 'history'} {home / 'broker*.log'} "
              f"{home / 'broker0.conf'}")  # fmt: skip
