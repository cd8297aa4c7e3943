"""A real leader at work: its own shedder on, its load recorded, and what we would have done."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from bench._real_pulsar import cluster

from counterpoise.pipeline.backtest.recorded import REPLAYED
from tests.real import agreement, agreement_by_stores
from tests.real.observer import call
from tests.real.parts import NAMESPACE, Started, counted, counterpoise, environment, load, settings

PHASE_S = 240
# Brokers of one machine share its processors and its network, and one that is busy makes all of
# them overloaded: then chance decides everything.
NOTHING_SHARED = {
    "loadBalancerCPUResourceWeight": 0,
    "loadBalancerDirectMemoryResourceWeight": 0,
    "loadBalancerBandwidthInResourceWeight": 0,
    "loadBalancerBandwidthOutResourceWeight": 0,
}
OF_MANAGER = {
    "modular": {**NOTHING_SHARED, "loadBalancerMemoryResourceWeight": 0},
    # It goes by usage alone, and of that the heap is each broker's own.
    "extensible": {
        **NOTHING_SHARED,
        "loadBalancerMemoryResourceWeight": 1,
        "loadBalancerBrokerLoadTargetStd": 0.03,
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalanceSheddingDelayInSeconds": 45,
    },
}
LEADS = re.compile(r"Unloading bundle: \S+ from broker|TransferShedder\] Unload decision result")


def record(
    lib: Path, home: Path, manager: str, minutes: float, seed: int, statistics_s: int
) -> None:
    """Record for so long; the busiest topics change every four minutes. Then count."""
    conf = settings(
        manager,
        statsUpdateFrequencyInSecs=statistics_s,
        loadBalancerSheddingIntervalMinutes=1,
        loadBalancerSheddingGracePeriodMinutes=3,
        loadBalancerDebugModeEnabled="true",
        **OF_MANAGER[manager],
    )
    with cluster(lib, home, 3, "info", **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        stores_file = home / "stores.jsonl"
        words = [sys.executable, "-m", "tests.real.stores", pulsar.service_url, str(stores_file)]
        listening = Started(words, home / "stores.txt") if manager == "extensible" else None
        if listening is not None and not listening.wait_for("ready", 60):
            raise SystemExit(f"the load stores are not read; see {listening.log}")
        with load(pulsar.service_url, home, PHASE_S, seed) as made:
            watch = Started(
                counterpoise("watch", "--admin-url", pulsar.admin_url,
                             "--history", str(home / "history"), "--interval", "2s"),
                home / "watch.txt",
            )  # fmt: skip
            time.sleep(minutes * 60)  # what is recorded is the time that passes
            print("watch ended with", watch.end())
            print(counted(made))
        if listening is not None:
            listening.end()
    play(home, manager)
    count(home, manager)


def play(home: Path, manager: str) -> None:
    """Print a backtest of the recording; keep what one reads, and the settings, for the suite."""
    history, conf = str(home / "history"), home / "broker0.conf"
    subprocess.run(
        counterpoise("backtest", history, "--as-pulsar", "--conf", str(conf), "--strategies",
                     conf_value(conf, "loadBalancerLoadSheddingStrategy")),
        env=environment(), check=True,
    )  # fmt: skip
    whole = home / "reports.parquet"
    subprocess.run(
        counterpoise("history", "export", history, "reports", "--out", str(whole)),
        env=environment(),
        check=True,
    )
    leader = home / f"{manager}.parquet"
    pq.write_table(pq.read_table(whole, columns=list(REPLAYED)), leader, compression="zstd")
    balancing = ("loadBalance", "loadManager", "minUnload", "maxUnload", "statsUpdate")
    kept = [line for line in conf.read_text().splitlines() if line.startswith(balancing)]
    (home / f"{manager}.conf").write_text("".join(f"{line}\n" for line in kept))


def conf_value(conf: Path, name: str) -> str:
    """A setting of a broker.conf."""
    return dict(line.split("=", 1) for line in conf.read_text().splitlines())[name]


def count(home: Path, manager: str) -> None:
    """How far we agree with the leader of a run that is recorded in this folder."""
    history, conf = str(home / "history"), str(home / "broker0.conf")
    logs = sorted(home.glob("broker*.log"))
    for log in (each for each in logs if LEADS.search(each.read_text(errors="replace"))):
        print(f"== {manager}: {log.name} led", flush=True)
        if manager == "extensible":
            agreement_by_stores.compare(history, home / "stores.jsonl", log, conf)
        else:
            agreement.compare(history, log, conf)
