"""A broker of a real Pulsar that is slowed tenfold: it is named, and is given nothing.

Its process is stopped for nine tenths of the time (SIGSTOP and SIGCONT), as one whose processor
others take. It is the one with the least load, so that whoever does not know would give it bundles.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._real_pulsar import RealPulsar, cluster

from counterpoise.decide.watchdog.observation import WatchdogOptions
from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, counted, load, settings
from tests.real.story import Story

EVERY_S = 0.5
STOPPED = 0.9
INTERVAL_S = 3
PHASE_S = 45
"""The load changes so often: there is always something to move."""
SLOW_S = 120
AT_FIRST_S = 45
"""For so long all brokers are well, and nothing is found."""


def judge_slow_broker(lib: Path, home: Path, manager: str) -> int:
    """Gives the number of checks that failed."""
    conf = settings(manager, loadBalancerSheddingEnabled="false")
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        story = Story(home, Cluster(pulsar.web_urls, NAMESPACE))
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        with load(pulsar.service_url, home, PHASE_S) as made:
            _slow_one(story, pulsar)
            found = counted(made)
        story.check("nothing is lost", not found["lost"], found)
        print(f"== {manager}: {len(story.failed)} checks failed", flush=True)
        return len(story.failed)


def _slow_one(story: Story, pulsar: RealPulsar) -> None:
    balancer = story.begin(
        "balance", "--admin-url", ",".join(pulsar.web_urls), "--history", story.history,
        "--execute", "--watchdog", "--interval", f"{INTERVAL_S}s", "--decide-every", "15s",
        "--grace-period", "20s", "--thrash-span", "0s",
    )  # fmt: skip
    story.check("it balances", balancer.wait_for("moved ", 180), balancer.text.splitlines()[-2:])
    story.wait(AT_FIRST_S)
    story.check("no broker is slow at first", "ALERT slow-broker" not in balancer.text)
    owned = story.real.owners()
    bundles = dict.fromkeys(story.real.brokers, 0)
    for owners in owned.values():
        for owner in owners:
            bundles[owner] += 1
    leader = story.real.leader()
    slow = min((b for b in bundles if b != leader), key=lambda broker: bundles[broker])
    index = next(i for i, url in enumerate(pulsar.web_urls) if slow in url)
    quick_s = _answers_in(pulsar.web_urls[index])
    place = len(balancer.text)
    with _slowed(pulsar.pids[index]):
        slow_s = _answers_in(pulsar.web_urls[index])
        story.check("it is ten times as slow", slow_s > 10 * quick_s,
                    f"{1000 * quick_s:.0f} ms, then {1000 * slow_s:.0f} ms")  # fmt: skip
        began = time.monotonic()
        named = balancer.wait_for(f"ALERT slow-broker: {slow} ", 60, place)
        took = time.monotonic() - began
        text = balancer.text[place:]
        alert = next((line for line in text.splitlines() if "ALERT slow-broker" in line), "")
        looks = WatchdogOptions().slow_looks
        story.check(f"it is named, at {looks} looks in a row", named, f"{took:.0f} s; {alert}")
        place = len(balancer.text)
        story.wait(SLOW_S)
        lines = balancer.text[place:].splitlines()
        moved = [line for line in lines if "decided " in line]
        to_it = [line for line in moved if f"-> {slow}" in line]
        print(f"{len(moved)} moves between the others meanwhile", flush=True)
        story.check("it is given nothing", not to_it, to_it[:2])
        over = [line for line in lines if "over: slow-broker" in line]
        story.check("it stays named", not over, over[:2])
        others = [line for line in lines if "ALERT slow-broker" in line and slow not in line]
        story.check("no other broker is named", not others, others[:2])
    over = balancer.wait_for(f"over: slow-broker of {slow}", 60, place)
    story.check("it is over when the broker runs again", over)
    story.check("the balancer ends with status 0", balancer.end() == 0)


@contextmanager
def _slowed(pid: int) -> Iterator[None]:
    """Let a process run for a tenth of the time."""
    over = threading.Event()

    def turns() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(STOPPED * EVERY_S)
            os.kill(pid, signal.SIGCONT)
            over.wait((1 - STOPPED) * EVERY_S)

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _answers_in(url: str) -> float:
    """The mean of ten answers, seconds; asked at moments that its turns do not set."""
    took_s = 0.0
    for _ in range(10):
        time.sleep(0.13)  # else all that follow a wait are answered in the turn that ended it
        began = time.monotonic()
        call(f"{url}/admin/v2/brokers/leaderBroker", within=30)
        took_s += time.monotonic() - began
    return took_s / 10
