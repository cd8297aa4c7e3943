"""Skewed load on a cluster, and what became of every message.

    python -m tests.real.load SERVICE_URL NAMESPACES MESSAGES_PER_SECOND [PHASE_SECONDS [SEED]]

Thirty topics in each of the namespaces (a,b,…), the busiest with a third of that namespace's load;
which one that is changes every phase. Namespaces carry the same. Ends on
SIGTERM, when all that was acknowledged has been received or a minute has passed, and prints what it
counted as JSON.
"""

import json
import random
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pulsar

from tests.waiting import answer_within

TOPICS = 30
TICK_S = 0.1
PAD = b"x" * 200


def topics_of(namespace: str) -> list[str]:
    return [f"persistent://{namespace}/t{number}" for number in range(TOPICS)]


def weights_of(phase: int, seed: int = 0) -> list[float]:
    """The part of the load that each topic has in a phase; they add up to 1."""
    order = list(range(TOPICS))
    random.Random(1000 * seed + phase).shuffle(order)
    weights = [0.0] * TOPICS
    for rank, topic in enumerate(order):
        weights[topic] = 1 / (rank + 1) ** 1.1
    return [weight / sum(weights) for weight in weights]


class Flags:
    """A flag for each message number: one byte each, so that hours of load stay small."""

    def __init__(self) -> None:
        self.raised = bytearray(1 << 16)

    def raise_at(self, number: int) -> bool:
        """Set a number's flag; whether it was set before."""
        while number >= len(self.raised):
            self.raised.extend(bytes(len(self.raised)))
        before, self.raised[number] = self.raised[number], 1
        return bool(before)

    def missing_of(self, other: "Flags") -> int:
        """How many flags the other has that are not set here."""
        mine = self.raised.ljust(len(other.raised), b"\0")
        return sum(theirs > own for theirs, own in zip(other.raised, mine, strict=False))

    def __len__(self) -> int:
        return self.raised.count(1)


def quantile(figures: Sequence[float], part: float) -> float:
    """The figure below which this part of them is; 0 of none."""
    return sorted(figures)[int(part * (len(figures) - 1))] if figures else 0.0


class Load:
    """One client that sends and receives it all."""

    def __init__(self, url: str, namespaces: Sequence[str]) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, logger=quiet, operation_timeout_seconds=60)
        topics = [topic for each in namespaces for topic in topics_of(each)]
        self._namespaces = len(namespaces)
        self._consumer = self._client.subscribe(
            topics, "all", consumer_type=pulsar.ConsumerType.Shared
        )
        self._producers = [
            self._client.create_producer(
                topic, block_if_queue_full=True, send_timeout_millis=0,
                # A broker that dies holds its topics up for a minute.
                max_pending_messages=20_000, batching_max_publish_delay_ms=5,
            )
            for topic in topics
        ]  # fmt: skip
        self.sent = self.failed = 0
        self._took_ms = array("f")
        self._ended_at = array("d")
        self.acknowledged = Flags()
        self.received = Flags()
        self.redelivered = 0
        self._ended = threading.Event()
        self._receiver = threading.Thread(target=self._receive)
        self._receiver.start()

    def run(self, rate: float, phase_s: float, seed: int, stopped: Callable[[], bool]) -> None:
        """Send until stopped."""
        began, phase, chance = time.monotonic(), -1, random.Random(seed)
        while not stopped():
            tick = time.monotonic()
            if (now := int((tick - began) / phase_s)) != phase:
                phase, seeds = now, range(seed, seed + self._namespaces)
                weights = [weight for each in seeds for weight in weights_of(now, each)]
            for topic in chance.choices(range(len(weights)), weights, k=int(rate * TICK_S)):
                self._send(topic, self.sent)
                self.sent += 1
            time.sleep(max(0.0, TICK_S - (time.monotonic() - tick)))  # the pace of the load

    def _send(self, topic: int, number: int) -> None:
        done = partial(self._count, number, time.monotonic())
        self._producers[topic].send_async(b"%d-%d-" % (topic, number) + PAD, done)

    def _count(self, number: int, began: float, result: pulsar.Result, _: pulsar.MessageId) -> None:
        self._took_ms.append(1000 * (time.monotonic() - began))
        self._ended_at.append(time.time())
        if result == pulsar.Result.Ok:
            self.acknowledged.raise_at(number)
        else:
            self.failed += 1

    def _receive(self) -> None:
        while not self._ended.is_set():
            try:
                message = self._consumer.receive(500)
            except pulsar.Timeout:
                continue
            self.redelivered += self.received.raise_at(int(message.data().split(b"-")[1]))
            self._consumer.acknowledge(message)

    def slowest(self) -> list[tuple[float, float]]:
        """When the slowest thousandth of publishes began, seconds since 1970, and how long each
        took, ms.
        """
        bound = quantile(self._took_ms, 0.999)
        ends = zip(self._ended_at, self._took_ms, strict=True)
        return [(end - took / 1000, took) for end, took in ends if took >= bound]

    def end(self) -> dict[str, Any]:
        """Wait for what is under way, and count."""
        for producer in self._producers:
            producer.flush()
        # It may return before the callback of the last message has run, which would then be counted
        # as acknowledged after the consumer has stopped.
        answer_within(lambda: len(self._ended_at) == self.sent, 60)
        answer_within(lambda: not self.received.missing_of(self.acknowledged), 60)
        self._ended.set()
        self._receiver.join()
        self._client.close()
        return {
            "sent": self.sent,
            "acknowledged": len(self.acknowledged),
            "failed": self.failed,
            "received": len(self.received),
            "redelivered": self.redelivered,
            "lost": self.received.missing_of(self.acknowledged),
            "slowest_thousandth_ms": round(quantile(self._took_ms, 0.999)),
            "slowest": self.slowest(),
        }


def main(url: str, namespaces: str, rate: str, phase_s: str = "1e9", seed: str = "0") -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    load = Load(url, namespaces.split(","))
    print("ready", flush=True)
    load.run(float(rate), float(phase_s), int(seed), stop.is_set)
    print(json.dumps(load.end()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
