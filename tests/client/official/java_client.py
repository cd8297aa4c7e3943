"""The official Java client, with commands line by line: see `driver`. ``… java_client LIB``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jpype
from jpype import JArray, JByte, JClass

from tests.conformance.jvm import java


class JavaClient:
    """One client with its producers and consumers."""

    def __init__(self) -> None:
        self._api = "org.apache.pulsar.client.api"
        units = JClass("java.util.concurrent.TimeUnit")
        self._seconds, self._ms = units.SECONDS, units.MILLISECONDS
        self._producers: dict[str, Any] = {}
        self._consumers: dict[str, Any] = {}
        self._client: Any = None

    def connect(self, url: str, within_s: float, **how: Any) -> None:
        """Make the client; it connects when it is first used."""
        made = JClass(f"{self._api}.PulsarClient").builder().serviceUrl(url)
        within_ms = int(within_s * 1000)
        made.operationTimeout(within_ms, self._ms).lookupTimeout(within_ms, self._ms)
        if how.get("trust"):
            made.tlsTrustCertsFilePath(how["trust"]).enableTlsHostnameVerification(True)
        if how.get("token") is not None:
            factory = JClass(f"{self._api}.AuthenticationFactory")
            made.authentication(factory.token(how["token"]))
        if how.get("listener"):
            made.listenerName(how["listener"])
        self._client = made.build()

    def produce(self, topic: str, payload: str, count: int) -> int:
        """Publish ``payload-0`` and so on, at once; returns when all are stored."""
        if topic not in self._producers:
            builder = self._client.newProducer().topic(topic).enableBatching(False)
            self._producers[topic] = builder.create()
        sent = [
            self._producers[topic].sendAsync(JArray(JByte)(f"{payload}-{number}".encode()))
            for number in range(count)
        ]
        for each in sent:
            each.get(60, self._seconds)
        return count

    def subscribe(self, topic: str) -> None:
        """Subscribe from the first message on."""
        earliest = JClass(f"{self._api}.SubscriptionInitialPosition").Earliest
        builder = self._client.newConsumer().topic([topic]).subscriptionName("s")
        self._consumers[topic] = builder.subscriptionInitialPosition(earliest).subscribe()

    def consume(self, topic: str, count: int) -> list[str]:
        """Receive and acknowledge so many messages; what is in them."""
        found = []
        for _ in range(count):
            message = self._consumers[topic].receive(30, self._seconds)
            self._consumers[topic].acknowledge(message)
            found.append(bytes(message.getData()).decode())
        return found

    def close(self) -> None:
        """Begin to close the client with all that it has: Netty takes two seconds to end."""
        self._producers.clear()
        self._consumers.clear()
        if self._client is not None:
            self._client.closeAsync()


def main(lib: str) -> None:
    """Serve until the standard input ends."""
    # Whatever Java's libraries print of themselves is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    java.start(Path(lib))
    client = JavaClient()
    for line in sys.stdin:
        asked = json.loads(line)
        verb = getattr(client, asked.pop("do"))
        try:
            answer = {"value": verb(**asked)}
        except jpype.JException as error:
            answer = {"refused": f"{error.getClass().getName()}: {error.getMessage()}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # Its threads cannot be ended.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
