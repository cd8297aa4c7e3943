"""Publishes and consumes the demo's messages by Pulsar's Python client, and counts each one."""

import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpoise.app.demo.plan import MESSAGE_BYTES, SkewedTopic

_HEADER = struct.Struct(">IQ")  # number of the topic, number of the message in it
SUBSCRIPTION = "demo"
TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the messages that the demo's clients have sent and received so far."""

    sent: int
    acknowledged: int
    """Messages for which the producer got a receipt."""
    failed: int
    """Messages for which the producer got an error instead."""
    received: int
    """Messages that a consumer got at least once."""
    duplicated: int
    """Deliveries of messages that the consumer had got before."""
    lost: int
    """Messages for which the producer got a receipt, and that no consumer got."""


class _Counts:
    """The counts of each message of one topic, by the message's number from 0 on."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self.acknowledged = bytearray()
        self.received = bytearray()

    def add(self) -> int:
        number = self.sent
        self.sent += 1
        self.acknowledged.append(0)
        self.received.append(0)
        return number


class LoadGenerator:
    """The demo's clients: a producer and a consumer for each topic, paced by one thread."""

    def __init__(self, service_url: str, loads: Sequence[SkewedTopic], log: Path) -> None:
        import pulsar

        self._ok = pulsar.Result.Ok
        self._loads = loads
        self._counts = [_Counts() for _ in loads]
        self._padding = bytes(MESSAGE_BYTES - _HEADER.size)
        self._stopping = threading.Event()
        self._pacer = threading.Thread(target=self._keep_pace, name="pacer", daemon=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._client = pulsar.Client(
            service_url,
            operation_timeout_seconds=60,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)),
        )
        self._consumers = [
            self._client.subscribe(load.topic, SUBSCRIPTION, message_listener=self._take)
            for load in loads
        ]
        self._producers = [
            # No send timeout: a message is late while its bundle moves, and must not fail.
            self._client.create_producer(
                load.topic, send_timeout_millis=0, block_if_queue_full=True
            )
            for load in loads
        ]

    def start(self) -> None:
        """Start the thread that publishes."""
        self._pacer.start()

    def stop(self, receive_s: float) -> Tally:
        """Stop publishing, wait at most `receive_s` for the last messages, return counts."""
        self._stopping.set()
        self._pacer.join()
        deadline = time.monotonic() + receive_s
        while time.monotonic() < deadline:
            tally = self.tally()
            if tally.acknowledged + tally.failed == tally.sent and not tally.lost:
                break
            time.sleep(TICK_S * 10)
        tally = self.tally()
        self._client.close()
        return tally

    def tally(self) -> Tally:
        """Return the counts so far; messages that are still on their way count as lost."""
        sums = Tally(0, 0, 0, 0, 0, 0)
        for counts in self._counts:
            acknowledged, received = bytes(counts.acknowledged), bytes(counts.received)
            got = len(received) - received.count(0)
            both = zip(acknowledged, received, strict=False)
            sums = Tally(
                sums.sent + counts.sent,
                sums.acknowledged + acknowledged.count(1),
                sums.failed + counts.failed,
                sums.received + got,
                sums.duplicated + sum(received) - got,
                sums.lost + sum(1 for promised, seen in both if promised and not seen),
            )
        return sums

    def _keep_pace(self) -> None:
        began = time.monotonic()
        sent = [0] * len(self._loads)
        while not self._stopping.wait(TICK_S):
            elapsed = time.monotonic() - began
            for number, load in enumerate(self._loads):
                due = int(load.messages_per_s * elapsed)
                for _ in range(due - sent[number]):
                    self._send(number)
                sent[number] = due

    def _send(self, topic: int) -> None:
        counts = self._counts[topic]
        number = counts.add()

        def done(result: Any, message_id: Any) -> None:
            del message_id
            if result == self._ok:
                counts.acknowledged[number] = 1
            else:
                counts.failed += 1

        self._producers[topic].send_async(_HEADER.pack(topic, number) + self._padding, done)

    def _take(self, consumer: Any, message: Any) -> None:
        topic, number = _HEADER.unpack_from(message.data())
        received = self._counts[topic].received
        received[number] = min(255, received[number] + 1)
        consumer.acknowledge(message)
