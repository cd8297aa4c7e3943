"""What if, on a real Pulsar: predicted by a backtest of what was recorded, then done and measured.

A fourth broker joins three, and a namespace of 4 bundles is made again with 32. Each is recorded as
it is, predicted from that recording, carried out, and balanced and recorded for as long. Predicted
and measured are the same figure by the same code: the largest broker's bytes/s ÷ their mean, over
time.
"""

import json
import shutil
import time
from pathlib import Path

from bench._real_pulsar import RealPulsar, cluster, free_ports

from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, load, settings
from tests.real.story import Story

OFF_MOST = 0.10
"""Of what was measured."""
STATISTICS_S = 10
FEW, MANY = 4, 32
STRATEGY = "Counterpoise"
EVERY = ("--set", "loadBalancerSheddingIntervalMinutes=1")


def judge_what_if(lib: Path, home: Path, manager: str, minutes: float) -> int:
    """Gives the number of checks that failed."""
    conf = settings(
        manager,
        statsUpdateFrequencyInSecs=STATISTICS_S,
        loadBalancerSheddingEnabled="false",
        forceDeleteNamespaceAllowed="true",
    )
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        story = Story(home, Cluster(pulsar.web_urls, NAMESPACE))
        _make(pulsar, 24)
        with load(pulsar.service_url, home):
            story.wait(3 * STATISTICS_S)
            before = _recorded(story, pulsar, minutes, "three", balances=False)
            predicted = _imbalance(story, before, "--brokers", "+1")
            _add_broker(story, pulsar, home / "cluster")
            after = _recorded(story, pulsar, minutes, "four", balances=True)
            _compare(story, "a fourth broker", predicted, _imbalance(story, after))
        _make(pulsar, FEW)
        with load(pulsar.service_url, home):
            story.wait(3 * STATISTICS_S)
            before = _recorded(story, pulsar, minutes, "few", balances=False)
        predicted = _imbalance(story, before, "--bundles", f"{NAMESPACE}={MANY}")
        _make(pulsar, MANY)
        with load(pulsar.service_url, home):
            story.wait(3 * STATISTICS_S)
            after = _recorded(story, pulsar, minutes, "many", balances=True)
        _compare(story, f"{MANY} bundles for {FEW}", predicted, _imbalance(story, after))
        print(f"== {manager}: {len(story.failed)} checks failed", flush=True)
        return len(story.failed)


def _make(pulsar: RealPulsar, bundles: int) -> None:
    """Make the namespace of so many bundles, whether or not it is there."""
    url = f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}"
    if NAMESPACE in call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/public"):
        call(f"{url}?force=true", method="DELETE")
    call(url, {"bundles": {"numBundles": bundles}}, "PUT")


def _add_broker(story: Story, pulsar: RealPulsar, folder: Path) -> None:
    """Start a fourth broker, and wait until the others list it."""
    lines = (folder / "broker0.conf").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines)
    web, service = free_ports(2)
    values |= {"webServicePort": str(web), "brokerServicePort": str(service)}
    (folder / "broker3.conf").write_text("".join(f"{k}={v}\n" for k, v in values.items()))
    assert pulsar.children is not None
    pulsar.children.start_broker(3)
    listed = story.until(lambda: len(call(f"{pulsar.web_urls[0]}/admin/v2/brokers")) == 4, 120)
    story.check("the fourth broker is listed", listed)


def _recorded(
    story: Story, pulsar: RealPulsar, minutes: float, name: str, *, balances: bool
) -> str:
    """The history of so many minutes."""
    history = str(story.home / f"history-{name}")
    shutil.rmtree(history, ignore_errors=True)
    common = ("--admin-url", ",".join(pulsar.web_urls), "--history", history, "--interval", "2s")
    more = ("--execute", "--strategy", STRATEGY, *EVERY) if balances else ()
    made = story.begin("balance" if balances else "watch", *common, *more)
    time.sleep(60 * minutes)  # what is recorded is the time that passes
    story.check(f"{name}: it ends with status 0", made.end() == 0)
    return history


def _imbalance(story: Story, history: str, *change: str) -> float:
    """Largest ÷ mean over time: of a replay with a change; without one, as it was recorded."""
    words = ("--strategies", STRATEGY, *EVERY, *change, "--json")
    status, text = story.run("backtest", history, *words)
    found = next((line for line in text.splitlines() if line.startswith("[{")), "[]")
    rows = [row for row in json.loads(found) if row["as_recorded"] is not bool(change)]
    story.check(f"backtest {' '.join(change)}", status == 0 and rows, text[-300:])
    return float(rows[0]["imbalance"]) if rows else float("nan")


def _compare(story: Story, what: str, predicted: float, measured: float) -> None:
    off = abs(predicted / measured - 1)
    story.check(
        f"{what}: largest ÷ mean is predicted within {OFF_MOST:.0%}",
        off <= OFF_MOST,
        f"predicted {predicted:.3f}, measured {measured:.3f}, {off:.1%} off",
    )
