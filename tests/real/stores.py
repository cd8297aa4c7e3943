"""What brokers under the extensible manager publish of their load, as it comes by.

    python -m tests.real.stores SERVICE_URL FILE

A line of JSON for each record of the two load-data topics of PIP-192: which topic, the broker, what
it said (nothing: a broker that has just given or got a bundle takes back what it said), and when.
The topics keep nothing, so a reader that needs all of it listens from the beginning.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.names.system_topics import BROKER_LOAD_DATA, TOP_BUNDLES_LOAD_DATA

TOPICS = {"loads": BROKER_LOAD_DATA, "top": TOP_BUNDLES_LOAD_DATA}


class StoreRecord(NamedTuple):
    """A record of one of the topics."""

    at_ms: int
    kind: str
    broker: str
    said: Any


def follow(service_url: str, file: Path) -> None:
    """Write every record down, until ended."""
    import pulsar

    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(service_url, logger=quiet)
    kinds = {topic: kind for kind, topic in TOPICS.items()}
    consumer = client.subscribe(list(kinds), "counterpoise-listens")
    print("ready", flush=True)
    with file.open("w", buffering=1) as out:
        while True:
            message = consumer.receive()
            records_read = StoreRecord(
                message.publish_timestamp(),
                kinds[message.topic_name()],
                message.partition_key(),
                json.loads(message.data() or b"null"),
            )
            out.write(json.dumps([*records_read, time.time_ns() // 1_000_000]) + "\n")
            consumer.acknowledge(message)


def records(file: Path) -> Iterator[StoreRecord]:
    """What was written down, oldest first."""
    for line in file.read_text().splitlines():
        if line.endswith("]"):
            yield StoreRecord(*json.loads(line)[:4])


class Stores:
    """The two stores as they were at a moment, which goes on and on."""

    def __init__(self, records_read: Iterator[StoreRecord]) -> None:
        self._left = sorted(records_read, key=lambda each: each.at_ms)[::-1]
        self.loads: dict[str, BrokerLoadData] = {}
        self.top: dict[str, TopBundlesLoadData] = {}

    def until(self, at_ms: int) -> None:
        """Take all that was published by then."""
        while self._left and self._left[-1].at_ms <= at_ms:
            each = self._left.pop()
            if each.said is None:
                (self.loads if each.kind == "loads" else self.top).pop(each.broker, None)
            elif each.kind == "loads":
                self.loads[each.broker] = BrokerLoadData.from_json(each.said)
            else:
                self.top[each.broker] = TopBundlesLoadData.from_json(each.said)


if __name__ == "__main__":
    follow(sys.argv[1], Path(sys.argv[2]))
