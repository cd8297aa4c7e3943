"""The official Java client, with commands line by line: see `driver`. ``… java_client LIB``."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import jpype
from jpype import JArray, JByte, JClass

from tests.conformance.jvm import java


class NothingCameError(Exception):
    """No message came within the time."""


class JavaClient:
    """One client with its producers and consumers."""

    def __init__(self) -> None:
        self._api = "org.apache.pulsar.client.api"
        units = JClass("java.util.concurrent.TimeUnit")
        self._seconds, self._ms = units.SECONDS, units.MILLISECONDS
        self._producers: dict[str, Any] = {}
        self._consumers: dict[str, Any] = {}
        self._transactions: dict[str, Any] = {}
        self._received: dict[str, dict[str, Any]] = {}
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
        if how.get("transactions"):
            made.enableTransaction(True)
        self._client = made.build()

    def produce(self, topic: str, payload: str, count: int, within_s: float = 30) -> int:
        """Publish ``payload-0`` and so on, at once; returns when all are stored.

        The first call for a topic says within which time.
        """
        if topic not in self._producers:
            builder = self._client.newProducer().topic(topic).enableBatching(False)
            builder.sendTimeout(int(within_s * 1000), self._ms)
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

    def consume(
        self, topic: str, count: int, within_s: float = 30, *, keep: bool = False
    ) -> list[str]:
        """Receive so many messages, and acknowledge them unless they are kept; their contents."""
        found = []
        for _ in range(count):
            message = self._consumers[topic].receive(int(within_s * 1000), self._ms)
            if message is None:
                raise NothingCameError
            if not keep:
                self._consumers[topic].acknowledge(message)
            found.append(bytes(message.getData()).decode())
        return found

    def unsubscribe(self, topic: str) -> None:
        """End the subscription."""
        self._consumers[topic].unsubscribe()

    def rewind(self, topic: str) -> None:
        """Go back to the first message."""
        self._consumers[topic].seek(JClass(f"{self._api}.MessageId").earliest)

    def last(self, topic: str) -> None:
        """Ask for the last message."""
        self._consumers[topic].getLastMessageIds()

    def partitions(self, topic: str) -> int:
        """How many topics stand for this one."""
        found = self._client.getPartitionsForTopic(topic).get(30, self._seconds)
        return len(found)

    def http(self, method: str, url: str, body: str) -> dict[str, Any]:
        """Ask an HTTP server, by Java's own client."""
        net = "java.net.http.HttpRe"
        send = JClass(f"{net}quest$BodyPublishers").ofString(body)
        uri = JClass("java.net.URI").create(url)
        made = JClass(f"{net}quest").newBuilder(uri).method(method, send)
        made.header("Content-Type", "application/json")
        text = JClass(f"{net}sponse$BodyHandlers").ofString()
        answer = JClass("java.net.http.HttpClient").newHttpClient().send(made.build(), text)
        return {"status": int(answer.statusCode()), "text": str(answer.body())}

    def begin(self, name: str, timeout_s: float = 60) -> None:
        """Open a transaction; the others know it by ``name``."""
        builder = self._client.newTransaction()
        builder.withTransactionTimeout(int(timeout_s * 1000), self._ms)
        self._transactions[name] = builder.build().get(30, self._seconds)

    def end(self, name: str, commit: bool) -> None:
        """Commit a transaction, or abort it."""
        transaction = self._transactions[name]
        (transaction.commit() if commit else transaction.abort()).get(30, self._seconds)

    def produce_in(self, name: str, topic: str, payload: str, count: int) -> int:
        """Publish in a transaction, in batches of two; returns when all are stored."""
        key = f"{topic} in a transaction"
        if key not in self._producers:
            builder = self._client.newProducer().topic(topic).sendTimeout(0, self._seconds)
            self._producers[key] = builder.batchingMaxMessages(2).create()
        made = [
            self._producers[key]
            .newMessage(self._transactions[name])
            .value(JArray(JByte)(f"{payload}-{number}".encode()))
            for number in range(count)
        ]
        sent = [each.sendAsync() for each in made]
        for each in sent:
            each.get(60, self._seconds)
        return count

    def follow(self, topic: str, subscription: str, kind: str = "Shared") -> None:
        """Subscribe from the first message on, with acknowledgements of single messages."""
        api = self._api
        earliest = JClass(f"{api}.SubscriptionInitialPosition").Earliest
        builder = self._client.newConsumer().topic([topic]).subscriptionName(subscription)
        builder.subscriptionType(getattr(JClass(f"{api}.SubscriptionType"), kind))
        builder.enableBatchIndexAcknowledgment(True).acknowledgmentGroupTime(0, self._ms)
        builder.subscriptionInitialPosition(earliest)
        self._consumers[f"{topic}/{subscription}"] = builder.subscribe()

    def receive(self, topic: str, subscription: str, count: int, within_s: float) -> list[str]:
        """What comes, as much as is asked for or comes in time; nothing is acknowledged."""
        key = f"{topic}/{subscription}"
        found = self._received.setdefault(key, {})
        texts: list[str] = []
        for _ in range(count):
            message = self._consumers[key].receive(int(within_s * 1000), self._ms)
            if message is None:
                break
            texts.append(bytes(message.getData()).decode())
            found[texts[-1]] = message
        return texts

    def acknowledge_in(
        self, name: str, topic: str, subscription: str, texts: list[str], cumulative: bool = False
    ) -> None:
        """Acknowledge received messages in a transaction."""
        key = f"{topic}/{subscription}"
        consumer, transaction = self._consumers[key], self._transactions[name]
        act = consumer.acknowledgeCumulativeAsync if cumulative else consumer.acknowledgeAsync
        for text in texts:
            act(self._received[key][text].getMessageId(), transaction).get(30, self._seconds)

    def leave(self, topic: str, subscription: str) -> None:
        """Close a consumer."""
        self._consumers.pop(f"{topic}/{subscription}").close()

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
    java.start(Path(lib), briefly=True)
    client = JavaClient()
    for line in sys.stdin:
        asked = json.loads(line)
        verb = getattr(client, asked.pop("do"))
        try:
            answer = {"value": verb(**asked)}
        except jpype.JException as error:
            answer = {"refused": f"{error.getClass().getName()}: {error.getMessage()}"}
        except NothingCameError:
            answer = {"refused": "TimeoutException: no message came"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # Its threads cannot be ended.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
