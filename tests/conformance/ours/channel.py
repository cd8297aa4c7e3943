"""Our reading of a bundle's records."""

import json

from counterpoise.ownership.channel.data import ServiceUnitStateData, next_version
from counterpoise.ownership.channel.transitions import Storage, refusal
from tests.conformance.suite import Answer, Case

_STORAGES = {"SystemTopic": Storage.SYSTEM_TOPIC, "MetadataStore": Storage.METADATA_STORE}


def channel(case: Case) -> Answer:
    """Of each record: whether it counts, and what the bundle's record is then."""
    storage = _STORAGES[case["storage"]]
    now: ServiceUnitStateData | None = None
    answers = []
    for line in case["lines"]:
        after = None if line is None else ServiceUnitStateData.from_json(json.dumps(line).encode())
        counts = refusal(now, after, storage) is None
        now = after if counts else now
        record = None if now is None else json.loads(now.to_json())
        answers.append({"counts": counts, "record": record, "next": next_version(now)})
    return answers
