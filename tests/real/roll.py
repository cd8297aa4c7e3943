"""A rolling restart of a real Pulsar under load: undrained first, then by `counterpoise roll`.

Undrained is what operators do without it: SIGTERM to a broker, start it again, wait until it
serves, next. Then the same brokers by `roll`, which is killed with -9 twice on the way. Compared
are the slowest publishes, how often bundles moved, and what became of every message.
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench._real_pulsar import Children, RealPulsar, cluster

from tests.real.load import quantile
from tests.real.observer import Cluster, call
from tests.real.parts import Started, counted, load, settings, slowest
from tests.real.story import Story, one_owner_each

BROKERS = 5
BETWEEN_S = 10
"""Between two brokers that are restarted undrained: as long as `roll` waits."""
STATISTICS_S = 10
MOVES_MOST = 2
LONGEST_S = 1800
STARTS_S = 20
"""For so long a broker that starts keeps the processors of a small machine busy."""
Spans = list[tuple[float, float]]
"""When each broker stopped: from when to when, seconds since 1970."""
PART = 0.5
"""Of the undrained restart's 99.9th percentile."""

ASK = """
import pathlib, sys, time
folder, broker = pathlib.Path(sys.argv[1]), sys.argv[2]
done = folder / f"{broker}.done"
(folder / f"{broker}.asked").touch()
while not done.exists():
    time.sleep(0.1)
done.unlink()
"""
"""The operator's command: it asks the process that started the brokers."""


def roll(lib: Path, home: Path, manager: str) -> int:
    """Gives the number of checks that failed."""
    conf = settings(
        manager, statsUpdateFrequencyInSecs=STATISTICS_S, loadBalancerSheddingEnabled="false"
    )
    with cluster(lib, home / "cluster", BROKERS, **conf) as pulsar:
        print(f"== {manager}: {BROKERS} brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        ways = {"undrained": _undrained, "rolled": _rolled}
        stories = {way: Story(home, Cluster(pulsar.web_urls, f"public/{way}")) for way in ways}
        slowest = {way: _measured(stories[way], pulsar, ways[way]) for way in ways}
        part = slowest["rolled"] / max(1, slowest["undrained"])
        stories["rolled"].check(
            f"the slowest thousandth of publishes takes at most {PART} of undrained",
            part <= PART,
            f"{slowest} ms, {part:.2f}",
        )
        failed = sum(len(story.failed) for story in stories.values())
        print(f"== {manager}: {failed} checks failed", flush=True)
        return failed


def _measured(
    story: Story, pulsar: RealPulsar, restart: Callable[[Story, RealPulsar, Spans], None]
) -> float:
    """Restart the brokers under load; gives the 99.9th percentile of publishing, ms."""
    namespace = story.real.namespace
    url = f"{pulsar.web_urls[0]}/admin/v2/namespaces/{namespace}"
    call(url, {"bundles": {"numBundles": 24}}, "PUT")
    stops: Spans = []
    with load(pulsar.service_url, story.home, namespace=namespace) as made:
        story.wait(3 * STATISTICS_S)
        began = time.monotonic()
        restart(story, pulsar, stops)
        took = time.monotonic() - began
        story.check("each bundle has one owner", story.until(lambda: _one_owner_each(story), 60))
        found = counted(made)
    _say_when(namespace, slowest(made), stops)
    story.check(f"{namespace}: nothing is lost, nothing failed",
                not found["lost"] and not found["failed"], f"{found}, {took:.0f} s")  # fmt: skip
    return found["slowest_thousandth_ms"]


def _say_when(namespace: str, publishes: list[tuple[float, float]], stops: Spans) -> None:
    """Print what brokers did when the slowest publishes began."""
    when: dict[str, list[float]] = {"a broker stopped": [], "it started": [], "else": []}
    for at_s, took_ms in publishes:
        stopping = any(began - 1 <= at_s <= ended for began, ended in stops)
        starting = any(ended < at_s <= ended + STARTS_S for _, ended in stops)
        when["a broker stopped" if stopping else "it started" if starting else "else"].append(
            took_ms
        )
    figures = ", ".join(
        f"{what} {len(took)} (median {quantile(took, 0.5):.0f} ms)" for what, took in when.items()
    )
    print(f"{namespace}: of the slowest thousandth, {len(publishes)}, began when: {figures}")


def _undrained(story: Story, pulsar: RealPulsar, stops: Spans) -> None:
    for index in range(BROKERS):
        _restart(pulsar, index, stops)
        back = story.until(lambda i=index: _serves(pulsar.web_urls[i]), 90)
        story.check(f"broker {index + 1} of {BROKERS} is back", back)
        story.wait(BETWEEN_S)


def _rolled(story: Story, pulsar: RealPulsar, stops: Spans) -> None:
    asked = story.home / "asked"
    asked.mkdir()
    script = story.home / "ask.py"
    script.write_text(ASK)
    words = (
        "roll", "--admin-url", ",".join(pulsar.web_urls), "--history", story.history, "--execute",
        "--settle", f"{BETWEEN_S}s", "--command", f"{sys.executable} {script} {asked} {{broker}}",
    )  # fmt: skip
    restarted: list[str] = []
    for until in ("2 of 5: waiting", "moved "):
        killed = story.begin(*words)
        came = _serve(asked, pulsar, (restarted, stops), killed, until)
        story.check(f"it comes to {until!r}", came, killed.text.splitlines()[-1:])
        killed.process.kill()
        killed.process.wait()
    ended = story.begin(*words)
    done = _serve(asked, pulsar, (restarted, stops), ended, "5 of 5 brokers restarted")
    story.check("it ends", done and ended.process.wait(60) == 0, ended.text.splitlines()[-3:])
    story.check("each broker was restarted", {*restarted} == {*story.real.brokers}, restarted)
    moved: Counter[str] = Counter()
    for file in sorted(Path(story.history).glob("action-*.json")):
        moves = json.loads(file.read_text())["moves"]
        moved.update(m["bundle"] for m in moves if m["status"] in ("moved", "elsewhere"))
    most = max(moved.values(), default=0)
    story.check(f"each bundle moved {MOVES_MOST} times at most", 0 < most <= MOVES_MOST,
                f"{sum(moved.values())} moves of {len(moved)} bundles, {most} at most")  # fmt: skip


def _serve(
    asked: Path, pulsar: RealPulsar, did: tuple[list[str], Spans], roller: Started, until: str
) -> bool:
    """Restart the brokers that files in a folder ask for, until the roller says these words.

    By the thread that runs all of this: a broker ends with the thread that started it.
    """
    deadline = time.monotonic() + LONGEST_S
    while until not in roller.text and time.monotonic() < deadline:
        for file in asked.glob("*.asked"):
            broker = file.name.removesuffix(".asked")
            file.unlink()
            index = next(i for i, url in enumerate(pulsar.web_urls) if broker in url)
            _restart(pulsar, index, did[1])
            did[0].append(broker)
            (asked / f"{broker}.done").touch()
        if roller.process.poll() is not None:
            break
        time.sleep(0.1)
    return until in roller.text


def _restart(pulsar: RealPulsar, index: int, stops: Spans) -> None:
    children, began_s = pulsar.children, time.time()
    assert isinstance(children, Children)
    children.stop(f"broker{index}", signal.SIGTERM)
    stops.append((began_s, time.time()))
    children.start_broker(index)


def _one_owner_each(story: Story) -> bool:
    try:
        return one_owner_each(story)
    except OSError:
        return False


def _serves(url: str) -> bool:
    try:
        return bool(call(f"{url}/admin/v2/brokers", within=5))
    except (OSError, ValueError):
        return False
