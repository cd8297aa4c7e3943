"""Brokers of ours on a real ZooKeeper and three real bookies, while bookies and brokers are killed.

A client publishes without a pause. A bookie is killed, the topic is moved, its broker is killed,
and at the end everything is stopped and started again on its data. Every acknowledged message has
to be there once, in order, and no ledger may be left that nothing refers to.
"""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pulsar

from tests.real.observer import call
from tests.real.parts import ROOT, counterpoise, environment
from tests.real.story import Story

TOPIC = "persistent://public/default/endured"
RATE = 300
CALM_S = 3.0


class OwnBrokersJudge:
    """One cluster's; each check is a line, and those that fail are counted."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, holds: object, seen: object = "") -> None:
        self.failed += not holds
        shown = f": {seen}" if seen != "" else ""
        print(f"{'ok    ' if holds else 'FAILED'} {what}{shown}"[:600], flush=True)


class Publisher:
    """Publishes numbers at a rate, and notes when each was acknowledged."""

    def __init__(self, client: pulsar.Client, topic: str = TOPIC) -> None:
        self.acknowledged: list[int] = []
        self.ids: dict[tuple[int, int], int] = {}
        """Each acknowledged number by its ledger and entry."""
        self.at: list[float] = []
        self.refused: list[object] = []
        self._producer = client.create_producer(
            topic, batching_enabled=False, send_timeout_millis=0, max_pending_messages=50_000
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()

    def _publish(self) -> None:
        number = 0
        begun = time.monotonic()
        while not self._ends.wait(max(0.0, begun + number / RATE - time.monotonic())):
            self._producer.send_async(b"%d" % number, self._answered(number))
            number += 1
        self._producer.flush()

    def _answered(self, number: int) -> Any:
        def answered(result: Any, at: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self.acknowledged.append(number)
                self.ids[at.ledger_id(), at.entry_id()] = number
                self.at.append(time.monotonic())
            else:
                self.refused.append(result)

        return answered

    def pause_since(self, moment: float) -> float:
        """The longest time without an acknowledgement since then."""
        at = [each for each in self.at if each >= moment]
        return max((b - a for a, b in zip([moment, *at], at, strict=False)), default=-1.0)

    def end(self) -> None:
        self._ends.set()
        self._thread.join()
        self._producer.close()


@contextmanager
def up(home: Path) -> Iterator[dict[str, Any]]:
    """The cluster's addresses, and the process id of its parent."""
    words = ["up", "--bookies", "3", "--brokers", "3", "--no-balance", "--json"]
    with (home / "up.log").open("ab") as log:
        process = subprocess.Popen(
            counterpoise(*words, "--data", str(home / "data")),
            stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), cwd=ROOT,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the cluster did not start; see {home / 'up.log'}")
            yield {**json.loads(line), "pid": process.pid}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def judge_own_brokers(home: Path) -> int:
    """Gives the number of checks that failed."""
    judge = OwnBrokersJudge()
    home.mkdir(parents=True, exist_ok=True)
    with up(home) as cluster:
        with _client(cluster) as client:
            # The one that acknowledges nothing keeps what the other has acknowledged.
            client.subscribe(TOPIC, "none").close()
            consumer = client.subscribe(TOPIC, "all")
            publisher = Publisher(client)
            for what, strike in (
                ("a bookie is killed", lambda: kill(cluster, "bookie-1.conf")),
                ("the topic is moved", lambda: move(cluster)),
                ("its broker is killed", lambda: kill(cluster, owner_conf(cluster))),
            ):
                Story.wait(CALM_S)
                moment = time.monotonic()
                strike()
                Story.wait(4 * CALM_S)
                pause = publisher.pause_since(moment)
                judge.check(f"{what}: publishing goes on", 0 <= pause < 20, f"{pause:.2f} s pause")
            publisher.end()
            sent = publisher.acknowledged
            judge.check("nothing was refused", not publisher.refused, publisher.refused[:3])
            judge_received(judge, consumer, sent)
        judge_kept(judge, cluster, sent, "before the restart")
        judge_persistence(judge, cluster)
        done = storage(cluster, "orphans")
        # What was not deleted while a broker died is an orphan, as on Pulsar.
        judge.check("orphan ledgers", len(json.loads(done.stdout or "0")) <= 1, done.stderr)
    with up(home) as cluster:
        judge_kept(judge, cluster, sent, "on the same data")
    return judge.failed


def judge_received(judge: OwnBrokersJudge, consumer: pulsar.Consumer, sent: list[int]) -> None:
    """A consumer gets what was acknowledged, first in order; some may come again."""
    left, firsts, again = set(sent), [], 0
    while left:
        message = consumer.receive(30_000)
        number = int(message.data())
        consumer.acknowledge(message)
        if number in left:
            left.discard(number)
            firsts.append(number)
        else:
            again += 1
    judge.check("every message is received, in order", firsts == sorted(firsts), len(firsts))
    print(f"       {again} came again")


def judge_kept(judge: OwnBrokersJudge, cluster: dict[str, Any], sent: list[int], when: str) -> None:
    """The topic has every acknowledged message, in order.

    One whose answer a broker took along when it was killed may be there twice: the client sent it
    again. Without deduplication Pulsar keeps both as well.
    """
    with _client(cluster) as client:
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(int(reader.read_next(30_000).data()))
        reader.close()
    firsts = list(dict.fromkeys(found))
    twice = len(found) - len(firsts)
    holds = firsts == sorted(firsts) and {*firsts} == {*sent}
    judge.check(f"{when}: all is there", holds, f"{len(firsts)}, {twice} twice, {len(sent)} sent")


def judge_persistence(judge: OwnBrokersJudge, cluster: dict[str, Any]) -> None:
    """The policies of a namespace and a topic decide on how many bookies each ledger is."""
    namespace, name = "public/persisted", "public/persisted/topic"
    admin, topic = f"{cluster['admin_url']}/admin/v2", f"persistent://{name}"
    call(f"{admin}/namespaces/{namespace}", {}, "PUT")
    call(f"{admin}/namespaces/{namespace}/persistence", persistence(3, 3, 2), "POST")
    with _client(cluster) as client:
        client.subscribe(topic, "keeps").close()
        producer = client.create_producer(topic, batching_enabled=False)
        producer.send(b"by the namespace's policy")
        call(f"{admin}/persistent/{name}/persistence", persistence(1, 1, 1), "POST")
        call(f"{admin}/persistent/{name}/unload", method="PUT")
        producer.send(b"by the topic's")
    rows = json.loads(storage(cluster, "ledgers", "--topic", topic).stdout or "[]")
    found = [row["quorums"] for row in rows]
    judge.check("ledgers are on as many bookies as policies say", found == ["3/3/2", "1/1/1"], rows)


def persistence(ensemble: int, write: int, ack: int) -> dict[str, float]:
    return {
        "bookkeeperEnsemble": ensemble,
        "bookkeeperWriteQuorum": write,
        "bookkeeperAckQuorum": ack,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    }


def storage(cluster: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    command = counterpoise("storage", words[0], "--metadata", cluster["metadata_url"], "--json")
    return subprocess.run(
        [*command, *words[1:]],
        capture_output=True, text=True, check=False, timeout=120, env=environment(),
    )  # fmt: skip


@contextmanager
def _client(cluster: dict[str, Any]) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(cluster["service_url"], logger=logger)
    try:
        yield client
    finally:
        client.close()


def kill(cluster: dict[str, Any], conf: str) -> None:
    """End the process of this cluster that was given this file."""
    for each in psutil.Process(cluster["pid"]).children(recursive=True):
        if any(word.endswith(conf) for word in each.cmdline()):
            os.kill(each.pid, signal.SIGKILL)


def owner(cluster: dict[str, Any]) -> str:
    path = TOPIC.replace("://", "/")
    found = call(f"{cluster['admin_url']}/lookup/v2/topic/{path}")
    return str(found["brokerUrl"])


def owner_conf(cluster: dict[str, Any]) -> str:
    urls = [each["service_url"] for each in cluster["brokers"]]
    return f"broker-{urls.index(owner(cluster)) + 1}.conf"


def move(cluster: dict[str, Any]) -> None:
    """Move the topic's bundle to the last broker that does not serve it.

    The first answers requests of this judge.
    """
    url = cluster["admin_url"]
    bundle = bundle_of(url, TOPIC)
    here = owner(cluster)
    to = [each["id"] for each in cluster["brokers"][1:] if each["service_url"] != here][-1]
    call(
        f"{url}/admin/v2/namespaces/public/default/{bundle}/unload?destinationBroker={to}",
        method="PUT",
    )


def bundle_of(admin_url: str, topic: str) -> str:
    """The range of a topic's bundle."""
    path = topic.replace("://", "/")
    url = f"{admin_url}/lookup/v2/topic/{path}/bundle"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode().strip('"'))
