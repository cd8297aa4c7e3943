"""The verbs of an operator's day, one after another, on a real Pulsar under load."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from bench._real_pulsar import cluster, free_ports

from tests.real.load import weights_of
from tests.real.observer import Cluster, call
from tests.real.parts import NAMESPACE, PATIENCE, Started, counted, counterpoise, load, settings
from tests.waiting import answer_within

SHEDDING = "loadBalancerSheddingEnabled"
SMALL = ("--set", "minUnloadMessage=10", "--set", "minUnloadMessageThroughput=1000",
         "--set", "maxUnloadPercentage=0.5")  # fmt: skip
UNIFORM = ("--strategy", "UniformLoadShedder", *SMALL)


class Story:
    """One cluster's; each check is a line, and those that fail are counted."""

    def __init__(self, home: Path, real: Cluster) -> None:
        self.home = home
        self.real = real
        self.history = str(home / "history")
        self.failed: list[str] = []
        self.metrics_port = free_ports(1)[0]
        self._number = 0
        self._began = time.monotonic()

    def imbalance(self) -> float:
        return self.real.imbalance(weights_of(0))

    def check(self, what: str, holds: object, seen: object = "") -> None:
        verdict = "ok    " if holds else "FAILED"
        after = f"{time.monotonic() - self._began:5.0f} s"
        print(f"{after} {verdict} {what}{f': {seen}' if seen != '' else ''}", flush=True)
        if not holds:
            self.failed.append(what)

    def log(self, name: str) -> Path:
        self._number += 1
        return self.home / f"{self._number:02}-{name}.txt"

    def run(self, *words: str, seconds: float = 400) -> tuple[int, str]:
        """A command to its end."""
        log = self.log(words[0])
        with log.open("w") as file:
            file.write(f"$ counterpoise {' '.join(words)}\n")
        made = Started(counterpoise(*words), log.with_suffix(".out"))
        try:
            status = made.process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = made.end()
        with log.open("a") as file:
            file.write(f"{made.text}\nstatus {status}\n")
        made.log.unlink()
        return status, log.read_text()

    def begin(self, *words: str) -> Started:
        """A command that goes on."""
        return Started(counterpoise(*words), self.log(words[0]))

    @staticmethod
    def wait(seconds: float) -> None:
        """Let time pass in which brokers measure, or in which nothing may happen."""
        time.sleep(max(0.0, seconds))  # nothing is awaited: that nothing happens is looked at

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        return bool(answer_within(holds, PATIENCE * seconds))


def run_story(lib: Path, home: Path, manager: str) -> int:
    """Gives the number of checks that failed."""
    conf = settings(manager, **{SHEDDING: "true", "loadBalancerSheddingIntervalMinutes": 60})
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        real = Cluster(pulsar.web_urls, NAMESPACE)
        call(f"{pulsar.web_urls[0]}/admin/v2/namespaces/{NAMESPACE}",
             {"bundles": {"numBundles": 24}}, "PUT")  # fmt: skip
        story = Story(home, real)
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        with load(pulsar.service_url, home) as made:
            for part in PARTS:
                part(story, pulsar.admin_url)
            found = counted(made)
        story.check(
            "nothing is lost, nothing failed", not found["lost"] and not found["failed"], found
        )
        print(f"== {manager}: {len(story.failed)} checks failed", flush=True)
        return len(story.failed)


def _look(story: Story, url: str) -> None:
    watch = story.begin("watch", "--admin-url", url, "--history", story.history)
    story.check("watch sees the load", watch.wait_for("imbalance", 60))
    story.wait(25)  # two measurements of the brokers
    story.check("watch ends with status 0", watch.end() == 0)


def _refuse(story: Story, url: str) -> None:
    """While the cluster sheds by itself, nothing is moved, and the setting is named."""
    before = story.real.owners()
    status, said = story.run("drain", story.real.brokers[2], "--admin-url", url, "--execute")
    story.check("drain refuses beside the cluster's own shedder", status == 2 and SHEDDING in said)
    balance = _balancing(story, url, "refused")
    story.check("balance refuses and names the setting", balance.wait_for(SHEDDING, 90))
    story.wait(20)
    times = balance.text.count("sheds load by itself")
    story.check("the refusal is said once", times == 1, times)
    story.check("nothing was moved", story.real.owners() == before)
    story.real.set_dynamic(SHEDDING, "false")
    free = balance.wait_for("does not shed load by itself any more", 60)
    story.check("it goes on once the setting is off", free)
    story.check("balance ends with status 0", balance.end() == 0)


def _drain(story: Story, url: str) -> None:
    first, second, third = story.real.brokers
    for broker in (second, third):
        status, _ = story.run("drain", broker, "--admin-url", url, "--execute")
        story.check(f"{broker} is empty", status == 0 and not story.real.counts()[broker],
                    story.real.counts())  # fmt: skip
    # The second was given some of the third's.
    status, _ = story.run(
        "drain", second, "--admin-url", url, "--execute", "--placement", "LeastLongTermMessageRate"
    )
    story.check("each bundle has one owner", one_owner_each(story))
    story.check("all bundles are brought to one broker", bring_all_to(story, first))
    story.wait(25)
    story.check("all load is on one broker", story.imbalance() > 1.9, f"{story.imbalance():.2f}")


def bring_all_to(story: Story, broker: str) -> bool:
    """Bring every bundle to a broker by hand.

    Asked again where it came to another: a lookup may come before the leader knows where to.
    """
    return story.until(lambda: _to(story, broker), 30)


def _to(story: Story, broker: str) -> bool:
    """Ask once; whether all were there already."""
    there = True
    urls = dict(zip(story.real.brokers, story.real.web_urls, strict=True))
    for bundle, owners in story.real.owners().items():
        if owners != [broker]:
            there = False
            namespace, _, span = bundle.rpartition("/")
            call(f"{urls[owners[0]]}/admin/v2/namespaces/{namespace}/{span}/unload"
                 f"?destinationBroker={broker}", method="PUT")  # fmt: skip
    return there


def _advise(story: Story, url: str) -> None:
    plan, page = str(story.home / "plan.json"), str(story.home / "plan.html")
    status, said = story.run("advise", "--admin-url", url, "--history", story.history, "--looks",
                             "2", "--save", plan, "--html", page, *UNIFORM)  # fmt: skip
    planned = re.search(r"imbalance (\d\.\d+) -> (\d\.\d+)", said)
    story.check("advise has a plan", status == 0 and planned and float(planned[2]) < 0.5,
                planned and planned[0])  # fmt: skip


def _approve(story: Story, url: str) -> None:
    """What was advised is approved, and done; what was done is not done again."""
    words = ("balance", "--admin-url", url, "--history", story.history, "--plan",
             str(story.home / "plan.json"))  # fmt: skip
    before = story.imbalance()
    status, said = story.run(*words)
    story.check("a plan is held against the cluster", status == 0, said.splitlines()[-3:])
    status, said = story.run(*words, "--execute")
    after = story.imbalance()
    story.check("an approved plan is carried out", status == 0 and after < before,
                f"{before:.2f} -> {after:.2f}")  # fmt: skip
    owners = story.real.owners()
    status, said = story.run(*words, "--execute")
    story.check("and not a second time", status == 0 and story.real.owners() == owners,
                said.splitlines()[-3:])  # fmt: skip
    story.check(
        "all bundles are brought back to one broker", bring_all_to(story, story.real.brokers[0])
    )
    story.wait(25)


def _balancing(story: Story, url: str, history: str, *more: str) -> Started:
    return story.begin(
        "balance", "--admin-url", url, "--history", str(story.home / history), "--execute",
        "--decide-every", "10s", "--grace-period", "60s", *UNIFORM, *more,
    )  # fmt: skip


def _balance(story: Story, url: str) -> None:
    before = story.imbalance()
    balance = _balancing(story, url, "history", "--watchdog", "--metrics", str(story.metrics_port),
                         "--max-moves-a-round", "3")  # fmt: skip
    story.check("balance moves on Spark", balance.wait_for("moved ", 120))
    story.run("control", "pause", "--history", story.history, "--why", "a release")
    story.wait(2)
    owners = story.real.owners()
    paused = balance.wait_for("paused", 120)
    story.check("a pause holds", paused and story.real.owners() == owners)
    status, said = story.run("status", "--history", story.history)
    story.check(
        "status names the pause and the moves",
        status == 0 and "a release" in said and "moved" in said,
    )
    place = len(balance.text)
    story.run("control", "resume", "--history", story.history)
    story.check("it goes on", balance.wait_for("moved ", 120, place))
    even = story.until(lambda: story.imbalance() < 0.6, 240)
    story.check("the brokers are even", even, f"{before:.2f} -> {story.imbalance():.2f}")
    place = len(balance.text)
    balance.wait_for("nothing to move", 90, place)
    with urllib.request.urlopen(f"http://127.0.0.1:{story.metrics_port}/metrics") as response:
        text = response.read().decode()
    (story.home / "metrics.txt").write_text(text)
    moves = re.search(r'moves_total\{status="moved"\} (\d+)', text)
    story.check("/metrics counts the moves", moves and int(moves[1]) > 0, moves and moves[1])
    story.run("control", "stop", "--history", story.history)
    try:
        status = balance.process.wait(60)
    except subprocess.TimeoutExpired:
        status = balance.end()
    story.check("stop ends it with status 0", status == 0)
    said = balance.text
    story.check("no move failed", not re.search(r"^.*(failed|unowned|elsewhere) ", said, re.M))
    story.check("each bundle has one owner", one_owner_each(story))


def one_owner_each(story: Story) -> bool:
    """Whether all brokers name the same owner of each bundle."""
    return all(len(brokers) == 1 for brokers in story.real.owners().values())


def _refill(story: Story, url: str) -> None:
    broker = story.real.brokers[2]
    story.run("drain", broker, "--admin-url", url, "--execute", "--partial")
    before = story.imbalance()
    story.wait(25)
    status, said = story.run("refill", broker, "--admin-url", url)
    story.check("refill shows a plan", status == 0 and "nothing was moved" in said)
    status, said = story.run(
        "refill", broker, "--admin-url", url, "--execute", "--history", str(story.home / "history")
    )
    after = story.imbalance()
    story.check("an empty broker is refilled", status == 0 and after < before and after < 0.6,
                f"{before:.2f} -> {after:.2f}")  # fmt: skip


READ_LOAD = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable  # whatever python3 is in the path
from pyspark.sql import SparkSession
from counterpoise.pipeline.spark.source import HistorySource
from counterpoise.pipeline.stream.public_source import PulsarLoad
spark = SparkSession.builder.master("local[*]").getOrCreate()
for source in (HistorySource, PulsarLoad):
    spark.dataSource.register(source)
history, url = sys.argv[1:]
for rows in (
    spark.read.format("counterpoise").option("table", "reports").load(history),
    spark.read.format("pulsar-load").load(url),
):
    print("brokers", rows.where("kind = 'broker'").select("broker").distinct().count(),
          "bundles", rows.where("kind = 'bundle'").select("bundle").distinct().count())
spark.stop()
"""


def _look_back(story: Story, url: str) -> None:
    """What was recorded is whole, is read by others, and is played again."""
    status, said = story.run("history", "check", story.history)
    story.check("the history is whole", status == 0, said.splitlines()[-3:])
    moves = story.home / "outcomes.csv"
    status, said = story.run("history", "export", story.history, "outcomes", "--out", str(moves))
    text = moves.read_text() if status == 0 else ""
    story.check("it has every move", text.count(",moved,") or text.count('"moved"'),
                f"{len(text.splitlines()) - 1} outcomes")  # fmt: skip
    for more in ((), ("--as-pulsar",)):
        status, said = story.run("backtest", story.history, "--strategies", "UniformLoadShedder",
                                 "--step", "10", *SMALL, *more)  # fmt: skip
        story.check("a backtest plays it again", status == 0 and "UniformLoadShedder" in said,
                    said.splitlines()[-6:])  # fmt: skip
    reader = Started(
        [sys.executable, "-c", READ_LOAD, story.history, url], story.log("read-by-spark")
    )
    story.until(lambda: reader.process.poll() is not None, 150)
    status = reader.end()
    found = re.findall(r"^brokers (\d+) bundles (\d+)$", reader.text, re.M)
    whole = len(found) == 2 and all(
        int(brokers) == 3 and int(bundles) for brokers, bundles in found
    )
    story.check("Spark reads history and cluster", status == 0 and whole, found)


def _guard(story: Story, url: str) -> None:
    status, said = story.run("watchdog", "--admin-url", url, "--interval", "3s")
    story.check("the watchdog finds nothing", status == 0, said.splitlines()[-3:])


PARTS = (_look, _refuse, _drain, _advise, _approve, _balance, _refill, _look_back, _guard)
