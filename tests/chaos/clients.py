"""The official client: publishers and consumers under load, probes after a fault, readers."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pulsar

from tests.chaos.history import Message, TopicHistory
from tests.chaos.judges import PROBE

SUBSCRIPTION = "chaos"
KEEPING = "keeping"
KEYS = 5
BETWEEN_MESSAGES_S = 0.025
PROBED_FOR_S = 40.0
"""After so long a topic counts as unusable."""


def client_of(service_url: str, *, operation_s: int = 30) -> pulsar.Client:
    """A client that says nothing."""
    return pulsar.Client(
        service_url,
        operation_timeout_seconds=operation_s,
        connection_timeout_ms=2000,
        # Faults are on purpose: what it says of them is no news.
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


class Load:
    """Publishes to every topic with keys, and consumes everything, until `stop`."""

    def __init__(self, service_url: str, topics: dict[str, TopicHistory]) -> None:
        self._topics = topics
        self._clients = [client_of(service_url), client_of(service_url)]
        self._stop = threading.Event()
        self.sent: dict[str, int] = dict.fromkeys(topics, 0)
        consuming, publishing = self._clients
        for name in topics:
            # No client reads it until the end, so the log keeps everything for the judges.
            consuming.subscribe(name, KEEPING).close()
        self._consumers = [
            consuming.subscribe(
                name,
                SUBSCRIPTION,
                initial_position=pulsar.InitialPosition.Earliest,
                message_listener=_into(topic),
            )
            for name, topic in topics.items()
        ]
        self._producers = {
            name: publishing.create_producer(
                name, batching_enabled=False, send_timeout_millis=0, block_if_queue_full=True
            )
            for name in topics
        }
        # One each: a topic that waits holds up no other.
        self._threads = [
            threading.Thread(target=self._publish, args=(name,), daemon=True) for name in topics
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, within_s: float) -> None:
        """Publish no more, and wait until every receipt and every delivery is there."""
        self._stop.set()
        end = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        pause = threading.Event()
        while time.monotonic() < end and not self._complete():
            pause.wait(0.2)

    def close(self) -> None:
        """Leave."""
        for client in self._clients:
            client.close()

    def unfinished(self) -> dict[str, str]:
        """What is missing, by topic."""
        return {
            name: f"{self.sent[name]} sent, {self._receipts(topic)} acknowledged, "
            f"{len(set(topic.delivered))} delivered"
            for name, topic in self._topics.items()
            if not self._done(name, topic)
        }

    def _complete(self) -> bool:
        return all(self._done(name, topic) for name, topic in self._topics.items())

    def _done(self, name: str, topic: TopicHistory) -> bool:
        return self._receipts(topic) == self.sent[name] and set(topic.acknowledged) <= set(
            topic.delivered
        )

    @staticmethod
    def _receipts(topic: TopicHistory) -> int:
        return sum(not each.producer.startswith(PROBE) for each in topic.acknowledged)

    def _publish(self, name: str) -> None:
        number, producer = 0, self._producers[name]
        while not self._stop.wait(BETWEEN_MESSAGES_S):
            message = Message("load", number, f"k{number % KEYS}")
            producer.send_async(
                message.encode(), _receipt(self._topics[name], message), partition_key=message.key
            )
            number += 1
            self.sent[name] = number


def _receipt(topic: TopicHistory, message: Message) -> Callable[[pulsar.Result, object], None]:
    def on_result(result: pulsar.Result, _: object) -> None:
        if result == pulsar.Result.Ok:
            topic.acknowledged.append(message)
            topic.receipts_at.append(time.monotonic())

    return on_result


def _into(topic: TopicHistory) -> Callable[[pulsar.Consumer, pulsar.Message], None]:
    def heard(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        topic.delivered.append(Message.decode(message.data()))
        consumer.acknowledge(message)

    return heard


def probe(
    service_url: str, topics: dict[str, TopicHistory], name: str
) -> Callable[[], dict[str, float | None]]:
    """Begin to write to every topic with a new client; call what it returns for the seconds."""
    began = time.monotonic()
    pool = ThreadPoolExecutor(len(topics), thread_name_prefix="probe")
    client = client_of(service_url, operation_s=3)

    def one(topic: str) -> float | None:
        message = Message(f"{PROBE}{name}", 0, "probe")
        pause = threading.Event()
        while time.monotonic() - began < PROBED_FOR_S:
            try:
                producer = client.create_producer(topic, send_timeout_millis=3000)
                producer.send(message.encode(), partition_key=message.key)
            except pulsar.PulsarException:
                pause.wait(0.05)
                continue
            took = time.monotonic() - began
            topics[topic].acknowledged.append(message)
            return took
        return None

    running = {topic: pool.submit(one, topic) for topic in topics}

    def result() -> dict[str, float | None]:
        found = {topic: future.result() for topic, future in running.items()}
        pool.shutdown()
        client.close()
        return found

    return result


def read_all(service_url: str, topics: Sequence[str]) -> dict[str, list[Message]]:
    """Everything that the topics' logs have."""
    client = client_of(service_url)
    found: dict[str, list[Message]] = {}
    for topic in topics:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        mine = found[topic] = []
        while reader.has_message_available():
            mine.append(Message.decode(reader.read_next(20_000).data()))
        reader.close()
    client.close()
    return found
