"""The watchdog beside a real Pulsar whose brokers are stopped, and killed.

A bundle that carried load and is unloaded when its client has left is unowned: that is said, and
on request it is looked up. A broker that is stopped (SIGSTOP) is listed and does not answer, as one
that collects its garbage for long or has lost its network; one that is killed with -9 stays listed
until its session ends. What the watchdog says is held against what was done, and against the time
in which it promises to say it.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench._real_pulsar import RealPulsar, cluster

from tests.real.channel import records, text_of_records
from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, Started, counted, load, settings
from tests.real.story import Story

PATIENCE_S = 20
INTERVAL_S = 3
ANSWERS_WITHIN_S = 10
"""What it gives a broker to answer before it takes it for silent."""
BOUND_S = PATIENCE_S + 2 * (INTERVAL_S + ANSWERS_WITHIN_S)
SESSION_S = 60
"""ZooKeeper allows no longer one."""


def raise_alarms(lib: Path, home: Path, manager: str) -> int:
    """Gives the number of checks that failed."""
    conf = settings(manager, loadBalancerSheddingEnabled="false")
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        story = Story(home, Cluster(pulsar.web_urls, NAMESPACE))
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        with load(pulsar.service_url, home) as made:
            _alarms(story, pulsar, manager)
            found = counted(made)
        story.check("nothing is lost", not found["lost"], found)
        print(f"== {manager}: {len(story.failed)} checks failed", flush=True)
        return len(story.failed)


def _alarms(story: Story, pulsar: RealPulsar, manager: str) -> None:
    pids = dict(zip(story.real.brokers, pulsar.pids, strict=True))
    leader = story.real.leader()
    follower = next(broker for broker in story.real.brokers if broker != leader)
    channel = ("--service-url", pulsar.service_url) if manager == "extensible" else ()
    dog = story.begin(
        "watchdog", "--admin-url", ",".join(pulsar.web_urls), "--follow", "--interval",
        f"{INTERVAL_S}s", "--patience", f"{PATIENCE_S}s", *channel,
    )  # fmt: skip
    # Until it knows who has what, which it asks when nothing has changed for a while.
    story.wait(2 * PATIENCE_S)
    story.check("nothing is wrong, and nothing is said", "ALERT" not in dog.text, dog.text)
    if manager == "extensible" and "ALERT" in dog.text:
        _explain(story, pulsar.service_url, dog.text)

    _orphan(story, pulsar, channel)

    def said(what: str, words: str, do: Callable[[], None], seconds: float) -> None:
        place, began = len(dog.text), time.monotonic()
        do()
        heard = dog.wait_for(words, seconds, place)
        took = time.monotonic() - began
        story.check(what, heard and took <= seconds, f"{took:.0f} s of {seconds:.0f}")
        print(dog.text[place:].rstrip(), flush=True)

    said("a stopped broker is said not to serve", f"ALERT not-serving: {follower} ",
         lambda: os.kill(pids[follower], signal.SIGSTOP), BOUND_S)  # fmt: skip
    said("and that it is over", f"over: not-serving of {follower}",
         lambda: os.kill(pids[follower], signal.SIGCONT), BOUND_S + SESSION_S)  # fmt: skip
    story.until(lambda: all(map(_answers, pulsar.web_urls)), 60)
    leader = story.real.leader()
    said("a leader that was killed is missed, or followed by another",
         f"{leader} ", lambda: os.killpg(pids[leader], signal.SIGKILL), BOUND_S)  # fmt: skip
    place = len(dog.text)
    gone = story.until(lambda: leader not in _listed(pulsar, leader), 2 * SESSION_S)
    story.check("its session ends", gone)
    dog.wait_for(f"over: not-serving of {leader}", BOUND_S, place)
    story.until(lambda: all(_owned_once(pulsar, leader)), 60)
    story.wait(BOUND_S)
    story.check("the watchdog ends with status 0", dog.end() == 0)
    print(dog.text[place:].rstrip(), flush=True)
    alive = [url for url in pulsar.web_urls if leader not in url]
    status, named = story.run("watchdog", "--admin-url", ",".join(alive), "--interval", "3s")
    story.check("nothing is wrong in the end", status == 0, named.splitlines()[-3:])


def _orphan(story: Story, pulsar: RealPulsar, channel: tuple[str, ...]) -> None:
    """A bundle that no client asks for any more, under a watchdog that may help."""
    taken = story.real.owners()
    names = (f"persistent://{NAMESPACE}/left-{number}" for number in range(1000))
    topic = next(each for each in names if story.real.bundle_of(each) not in taken)
    bundle = story.real.bundle_of(topic)
    dog = story.begin(
        "watchdog", "--admin-url", ",".join(pulsar.web_urls), "--follow", "--remedy",
        "--interval", f"{INTERVAL_S}s", "--patience", f"{PATIENCE_S}s", *channel,
    )  # fmt: skip
    words = [sys.executable, "-c", BRIEFLY, pulsar.service_url, topic]
    client = Started(words, story.log("briefly"))
    story.check("a client leaves its topic", client.process.wait(120) == 0)
    place = len(dog.text)
    namespace, _, span = bundle.rpartition("/")
    call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{namespace}/{span}/unload", method="PUT")
    heard = dog.wait_for(f"ALERT no-owner: no broker owns {bundle}", BOUND_S, place)
    story.check("an unowned bundle is missed", heard)
    helped = dog.wait_for(f"remedy for {bundle}: lookup", BOUND_S, place)
    over = dog.wait_for(f"over: no-owner of {bundle}", BOUND_S, place)
    story.check("and given to a broker on request", helped and over)
    path = topic.replace("://", "/")
    named = {call(f"{url}/lookup/v2/topic/{path}")["httpUrl"] for url in pulsar.web_urls}
    story.check("all brokers name the same owner", len(named) == 1, sorted(named))
    story.check("that watchdog ends with status 0", dog.end() == 0)
    print(dog.text[place:].rstrip(), flush=True)


BRIEFLY = """
import sys, time, pulsar
client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
producer = client.create_producer(sys.argv[2])
until = time.monotonic() + 30  # three measurements of the brokers
while time.monotonic() < until:
    producer.send(b"x" * 1000)
    time.sleep(0.05)
client.close()
"""
"""A client that comes, publishes for a while, and leaves for ever."""


def _explain(story: Story, service_url: str, said: str) -> None:
    """All that the channel has of the bundles that are spoken of."""
    file = story.home / "channel.jsonl"
    words = [sys.executable, "-m", "tests.real.channel", service_url, str(file)]
    reading = Started(words, story.home / "channel.txt")
    story.wait(10)
    reading.process.kill()
    reading.process.wait()
    for bundle in sorted(set(re.findall(rf"{NAMESPACE}/0x\w+", said))):
        print("\n  ".join([bundle, *text_of_records(records(file), bundle)]), flush=True)


def _answers(url: str) -> bool:
    try:
        return bool(call(f"{url}/admin/v2/brokers"))
    except OSError:
        return False


def _listed(pulsar: RealPulsar, dead: str) -> list[str]:
    alive = next(url for url in pulsar.web_urls if dead not in url)
    try:
        listed: list[str] = call(f"{alive}/admin/v2/brokers")
    except OSError:
        return [dead]
    return listed


def _owned_once(pulsar: RealPulsar, dead: str) -> list[bool]:
    """Of each bundle, whether those that live agree on an owner who does, too."""
    alive = [url for url in pulsar.web_urls if dead not in url]
    try:
        owners = Cluster(alive, NAMESPACE).owners()
    except OSError:
        return [False]
    return [len(named) == 1 and dead not in named for named in owners.values()]
