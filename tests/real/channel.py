"""All that the bundle state channel said, with the time when each record came by.

    python -m tests.real.channel SERVICE_URL FILE

A line of JSON for each record: the bundle, its state and brokers, the time its writer gave it, when
it was published, and when it was read here. What an alarm says is explained by these.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.decide.watchdog.judge import IN_FLIGHT
from counterpoise.pipeline.watchdog.channel import TOPIC

NAMES = ("state", "sourceBroker", "dstBroker", "timestamp", "versionId", "force")


def follow(service_url: str, file: Path) -> None:
    """Write every record down, until ended."""
    import pulsar

    client = pulsar.Client(service_url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    with file.open("w", buffering=1) as out:
        while True:
            message = reader.read_next()
            try:
                told = json.loads(message.data()) if message.data() else {}
            except ValueError:
                told = {}
            row = {name: told.get(name) for name in NAMES} | {
                "bundle": message.partition_key(),
                "published": message.publish_timestamp(),
                "read": time.time_ns() // 1_000_000,
            }
            out.write(json.dumps(row) + "\n")


def records(file: Path) -> list[Mapping[str, Any]]:
    """What has been written down, oldest first."""
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]


def in_flight_s(told: Sequence[Mapping[str, Any]], bundle: str, now_ms: int) -> float:
    """The longest time for which a bundle stood in one state between two owners, by the channel.

    Of the broker that published it, from one record's arrival in the topic to the next one's.
    """
    mine = [each for each in told if each["bundle"] == bundle]
    ends = [each["published"] for each in mine[1:]] + [now_ms]
    stood = [
        (end - each["published"]) / 1000
        for each, end in zip(mine, ends, strict=True)
        if each["state"] in IN_FLIGHT
    ]
    return max(stood, default=0.0)


if __name__ == "__main__":
    follow(sys.argv[1], Path(sys.argv[2]))
