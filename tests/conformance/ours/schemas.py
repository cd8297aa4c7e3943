"""Which schemas our registry accepts, under which versions, on a case."""

import asyncio
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.schemas.key_value import SCHEMA_TYPES
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.schemas.rules import SchemaOptions
from counterpoise.metadata import MemoryTree
from counterpoise.names.topic import TopicName
from counterpoise.wire.values import Schema
from tests.conformance.suite import Answer, Case

TOPIC = TopicName.parse("persistent://t/n/x")


def schemas(case: Case) -> Answer:
    """What is answered to each producer and consumer of a topic, one after the other."""
    return asyncio.run(_answers(case))


async def _answers(case: Case) -> list[Any]:
    store = MemoryTree().open()
    answers: list[Any] = []
    for line in case["lines"]:
        options = SchemaOptions(strategy=line["strategy"])
        here = SchemaRegistry(store, options=lambda options=options: options)  # type: ignore[misc]
        answers.append(await _answer(here, line))
    await store.close()
    return answers


async def _answer(here: SchemaRegistry, line: Any) -> Any:
    properties = tuple(line["properties"].items())
    kind = SCHEMA_TYPES.index(line["type"])
    schema = Schema("s", bytes.fromhex(line["data"]), kind, properties)
    try:
        if line["consumer"]:
            await here.attach(TOPIC, schema)
            return "accepted"
        return int.from_bytes(await here.put(TOPIC, schema))
    except BrokerError as error:
        return "invalid" if _is_invalid(str(error)) else "incompatible"


def _is_invalid(message: str) -> bool:
    return "Invalid schema definition" in message or "is not supported" in message
