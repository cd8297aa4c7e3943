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

from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.pipeline.watchdog.channel import TOPIC

NAMES = ("state", "sourceBroker", "dstBroker", "timestamp", "versionId", "force")


def follow(service_url: str, file: Path) -> None:
    """Write every record down, until ended."""
    import pulsar

    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(service_url, logger=quiet)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    with file.open("w", buffering=1) as out:
        while True:
            message = reader.read_next()
            record = json.loads(message.data() or b"{}") or {}
            row = {name: record.get(name) for name in NAMES} | {
                "bundle": message.partition_key(),
                "published": message.publish_timestamp(),
                "read": time.time_ns() // 1_000_000,
            }
            out.write(json.dumps(row) + "\n")


def records(file: Path) -> list[Mapping[str, Any]]:
    """What has been written down, oldest first."""
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]


def text_of_records(rows: Sequence[Mapping[str, Any]], bundle: str) -> list[str]:
    """A bundle's records in words, and which of them hold."""
    said, before = [], None
    for each in rows:
        if each["bundle"] != bundle:
            continue
        given = json.dumps({name: value for name, value in each.items() if value is not None})
        record = ServiceUnitStateData.from_json(given.encode()) if each["state"] else None
        holds = refusal(before, record, Storage.SYSTEM_TOPIC) is None
        before = record if holds else before
        said.append(
            f"{each['published'] % 3_600_000 / 1000:.3f} s past the hour: {each['state']} "
            f"{each['sourceBroker'] or ''} -> {each['dstBroker']}, version {each['versionId']}"
            f"{'' if holds else ', which does not hold'}"
        )
    return said


if __name__ == "__main__":
    follow(sys.argv[1], Path(sys.argv[2]))
