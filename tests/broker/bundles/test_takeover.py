"""A broker process dies by SIGKILL under load: another takes over, and no message is lost."""

import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from counterpoise.app.clusters.local_cluster import BrokerProcess, LocalCluster, LocalClusterOptions

pytestmark = [pytest.mark.zookeeper, pytest.mark.client]

TOPICS = [f"persistent://public/default/takeover-{number}" for number in range(6)]
ENOUGH = 100


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    options = LocalClusterOptions(
        brokers=3, data=tmp_path, settings={"metadataStoreSessionTimeoutMillis": "4000"}
    )
    with LocalCluster(options) as started:
        yield started


class Publisher:
    """Publishes numbers to one topic and remembers which were acknowledged."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.failed: list[tuple[int, pulsar.Result]] = []
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._producer = client.create_producer(
            topic, batching_enabled=False, send_timeout_millis=0, block_if_queue_full=True
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_more(self, count: int) -> None:
        """Wait until that many more messages were acknowledged than are now."""
        with self._changed:
            goal = len(self.acknowledged) + count
            assert self._changed.wait_for(lambda: len(self.acknowledged) >= goal, 60), self.topic

    def stop(self) -> int:
        """End; returns how many messages were sent in all."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        return self._sent

    def _run(self) -> None:
        self._sent = 0
        while not self._stop.wait(0.002):
            number = self._sent
            self._producer.send_async(b"%d" % number, self._answered(number))
            self._sent += 1

    def _answered(self, number: int) -> Callable[[pulsar.Result, object], None]:
        def answered(result: pulsar.Result, _: object) -> None:
            with self._changed:
                if result == pulsar.Result.Ok:
                    self.acknowledged.append(number)
                else:
                    self.failed.append((number, result))
                self._changed.notify_all()

        return answered


def owner_of(cluster: LocalCluster, topic: str) -> BrokerProcess:
    path = topic.replace("://", "/")
    with urllib.request.urlopen(f"{cluster.admin_url}/lookup/v2/topic/{path}") as answer:
        text = answer.read().decode()
    return next(each for each in cluster.brokers if each.service_url in text)


def read_all(client: pulsar.Client, topic: str) -> list[int]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(int(reader.read_next(20_000).data()))
    reader.close()
    return found


def test_acknowledged_messages_survive_the_death_of_their_broker(cluster: LocalCluster) -> None:
    client = pulsar.Client(
        cluster.service_url,
        operation_timeout_seconds=60,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    publishers = [Publisher(client, topic) for topic in TOPICS]
    for publisher in publishers:
        publisher.await_more(ENOUGH)
    victim = owner_of(cluster, TOPICS[0])
    doomed = [each for each in publishers if owner_of(cluster, each.topic) == victim]
    cluster.kill(victim)
    assert not victim.alive
    for publisher in doomed:
        publisher.await_more(ENOUGH)
    assert all(owner_of(cluster, each.topic) != victim for each in doomed)
    sent = {each.topic: each.stop() for each in publishers}
    for publisher in publishers:
        stored = read_all(client, publisher.topic)
        assert not publisher.failed
        assert sorted(publisher.acknowledged) == list(range(sent[publisher.topic]))
        first_seen = list(dict.fromkeys(stored))
        assert first_seen == list(range(sent[publisher.topic])), "lost, or out of order"
    client.close()
