"""Plans of several rounds at a minute's statistics, and brokers that stand still or die meanwhile.

What a plan predicts is held against what brokers carry two minutes after its last move, by who owns
each topic and by its part of the load. Then a balancer works while one broker is frozen for 40
seconds, and another is killed with -9 and started again.
"""

import csv
import json
import math
import os
import re
import signal
import time
from pathlib import Path

from bench._real_pulsar import RealPulsar, cluster

from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, PATIENCE, counted, load, settings
from tests.real.story import UNIFORM, Story, bring_all_to, one_owner_each

STATISTICS_S = 60
"""Between two measurements of a broker: Pulsar's default."""
MEASURED_S = 2 * STATISTICS_S + 10
"""After so long every report is about the time since the last change."""
LATER_S = 120
NEAR = 0.05
"""What a predicted imbalance may be off by."""
FROZEN_S = 40
ANSWERS_WITHIN_S = 30
SOME_A_ROUND = ("--set", "counterpoiseMaxMovesPerRound=2")


def endure(lib: Path, home: Path, manager: str) -> int:
    """Gives the number of checks that failed."""
    conf = settings(
        manager, statsUpdateFrequencyInSecs=STATISTICS_S, loadBalancerSheddingEnabled="false"
    )
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        story = Story(home, Cluster(pulsar.web_urls, NAMESPACE))
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        with load(pulsar.service_url, home) as made:
            urls = ",".join(pulsar.web_urls)
            _plan(story, urls, "rounds", SOME_A_ROUND, rounds=2)
            _plan(story, urls, "uniform", UNIFORM, rounds=1)
            _balance(story, urls, pulsar)
            found = counted(made)
        story.check(
            "nothing is lost, nothing failed", not found["lost"] and not found["failed"], found
        )
        print(f"== {manager}: {len(story.failed)} checks failed", flush=True)
        return len(story.failed)


def _plan(story: Story, urls: str, name: str, strategy: tuple[str, ...], rounds: int) -> None:
    """Advise, carry out, and measure what was predicted."""
    story.check("all bundles are on one broker", bring_all_to(story, story.real.brokers[0]))
    story.wait(MEASURED_S)
    file = story.home / f"{name}.json"
    status, _ = story.run("advise", "--admin-url", urls, "--save", str(file), *strategy)
    plan = json.loads(file.read_text()) if status == 0 else {"steps": []}
    steps = plan["steps"]
    planned = max((step["round"] for step in steps), default=0)
    story.check(f"the plan has {rounds} rounds or more", planned >= rounds,
                f"{len(steps)} steps in {planned} rounds")  # fmt: skip
    if not steps:
        return
    story.check(
        "it leaves the bundles of pulsar/system alone",
        not any(step["bundle"].startswith("pulsar/") for step in steps),
    )
    status, said = story.run("balance", "--admin-url", urls, "--history", story.history, "--plan",
                             str(file), "--execute", seconds=900)  # fmt: skip
    whole = re.search(r"(\d+) of (\d+) moved and verified, 0 left", said)
    story.check("every step of every round is carried out",
                status == 0 and whole and whole[1] == whole[2], said.splitlines()[-3:])  # fmt: skip
    story.wait(LATER_S)
    predicted, measured = plan["after"]["imbalance"], story.imbalance()
    story.check(f"its imbalance is within {NEAR} of what was predicted",
                abs(predicted - measured) <= NEAR, f"{predicted:.3f}, {measured:.3f}")  # fmt: skip


def _balance(story: Story, urls: str, pulsar: RealPulsar) -> None:
    """The default strategy at the default settings, while brokers stand still and die."""
    children = pulsar.children
    assert children is not None
    story.check("all bundles are on one broker again", bring_all_to(story, story.real.brokers[0]))
    before = story.imbalance()
    # Reports of before would show a balancer that bundles move, and what moved lately stays.
    story.wait(MEASURED_S)
    # In the history of the plans most bundles moved lately.
    history = str(story.home / "balanced")
    balance = story.begin(
        "balance", "--admin-url", urls, "--history", history, "--execute", "--watchdog"
    )
    story.check("the balancer looks", balance.wait_for("its first batch runs", 120))
    os.kill(children.pid("broker2"), signal.SIGSTOP)
    began = time.monotonic()
    for verb in ("brokers", "bundles"):
        asked = time.monotonic()
        story.run(verb, "--admin-url", urls, seconds=PATIENCE * ANSWERS_WITHIN_S)
        took = time.monotonic() - asked
        story.check(f"{verb} ends beside a frozen broker", took < PATIENCE * ANSWERS_WITHIN_S,
                    f"{took:.0f} s")  # fmt: skip
    story.wait(FROZEN_S - (time.monotonic() - began))
    os.kill(children.pid("broker2"), signal.SIGCONT)
    moved = balance.wait_for("moved ", 240)
    story.check("it moves bundles", moved)
    children.stop("broker1", signal.SIGKILL)
    story.wait(FROZEN_S)
    back = children.start_broker(1)

    def serves() -> bool:
        nonlocal back
        # Pulsar gives its start up when the registration of its former life ends meanwhile, and
        # whoever supervises a broker starts it again.
        if back.poll() is not None:
            back = children.start_broker(1)
        return _answers(pulsar.web_urls[1])

    story.check("the killed broker serves again", story.until(serves, 90))
    even = story.until(lambda: _imbalance(story) < 0.5, 300)
    story.check("the brokers become even", even, f"{before:.2f} -> {_imbalance(story):.2f}")
    story.check("each bundle has one owner", story.until(lambda: one_owner_each(story), 60))
    story.check("the balancer ends with status 0", balance.end() == 0)
    moves = story.home / "outcomes.csv"
    story.run("history", "export", history, "outcomes", "--out", str(moves))
    with moves.open(newline="") as file:
        bundles = [row["bundle"] for row in csv.DictReader(file)]
    system = [each for each in bundles if each.startswith("pulsar/")]
    story.check("no bundle of pulsar/system was moved", bundles and not system, system)


def _imbalance(story: Story) -> float:
    """Without an end where a broker does not say who owns what."""
    try:
        return story.imbalance()
    except OSError:
        return math.inf


def _answers(url: str) -> bool:
    try:
        call(f"{url}/lookup/v2/topic/persistent/{NAMESPACE}/t0", within=5)
        return True
    except OSError:
        return False
