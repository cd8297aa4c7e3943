"""The official Python client, with commands line by line: see `driver`."""

import json
import os
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import pulsar


class PythonClient:
    """One client with its producers and consumers."""

    def __init__(self) -> None:
        self._producers: dict[str, pulsar.Producer] = {}
        self._consumers: dict[str, pulsar.Consumer] = {}
        self._client: pulsar.Client | None = None

    @property
    def _made(self) -> pulsar.Client:
        assert self._client is not None, "connect first"
        return self._client

    def connect(self, url: str, within_s: float) -> None:
        """Make the client; it connects when it is first used."""
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, operation_timeout_seconds=int(within_s), logger=logger)

    def produce(self, topic: str, payload: str, count: int, within_s: float = 30) -> int:
        """Publish ``payload-0`` and so on, at once; returns when all are stored.

        The first call for a topic says within which time.
        """
        if topic not in self._producers:
            self._producers[topic] = self._made.create_producer(
                topic, send_timeout_millis=int(within_s * 1000)
            )
        results, all_there = [], threading.Semaphore(0)

        def stored(result: pulsar.Result, _: object) -> None:
            results.append(result)
            all_there.release()

        for number in range(count):
            self._producers[topic].send_async(f"{payload}-{number}".encode(), stored)
        for _ in range(count):
            # While it connects again and again it lets no time-out of a message pass.
            if not all_there.acquire(timeout=within_s + 2):
                raise pulsar.Timeout(pulsar.Result.Timeout)
        for result in results:
            if result != pulsar.Result.Ok:
                raise pulsar.PulsarException(result)
        return count

    def subscribe(self, topic: str) -> None:
        """Subscribe from the first message on."""
        earliest = pulsar.InitialPosition.Earliest
        self._consumers[topic] = self._made.subscribe(topic, "s", initial_position=earliest)

    def consume(
        self, topic: str, count: int, within_s: float = 30, *, keep: bool = False
    ) -> list[str]:
        """Receive so many messages, and acknowledge them unless they are kept; their contents."""
        found = []
        for _ in range(count):
            message = self._consumers[topic].receive(int(within_s * 1000))
            if not keep:
                self._consumers[topic].acknowledge(message)
            found.append(message.data().decode())
        return found

    def unsubscribe(self, topic: str) -> None:
        """End the subscription."""
        self._consumers[topic].unsubscribe()

    def rewind(self, topic: str) -> None:
        """Go back to the first message."""
        self._consumers[topic].seek(pulsar.MessageId.earliest)

    def last(self, topic: str) -> None:
        """Ask for the last message."""
        self._consumers[topic].get_last_message_id()

    def partitions(self, topic: str) -> int:
        """How many topics stand for this one."""
        return len(self._made.get_topic_partitions(topic))

    def http(self, method: str, url: str, body: str) -> dict[str, Any]:
        """Ask an HTTP server."""
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(url, body.encode(), headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return {"status": answer.status, "text": answer.read().decode()}
        except urllib.error.HTTPError as refused:
            return {"status": refused.code, "text": refused.read().decode()}

    def close(self) -> None:
        """Close the client with all that it has."""
        self._producers.clear()
        self._consumers.clear()
        if self._client is not None:
            self._client.shutdown()


def main() -> None:
    """Serve until the standard input ends."""
    # Whatever the client's library prints of itself is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    client = PythonClient()
    for line in sys.stdin:
        asked = json.loads(line)
        verb = getattr(client, asked.pop("do"))
        try:
            answer = {"value": verb(**asked)}
        except pulsar.PulsarException as error:
            answer = {"refused": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
