"""The schemas of the topics by which brokers exchange records and load data.

They are in ``json_schemas.json``, by topic, and equal what ``Schema.JSON`` gives for Pulsar's
classes ``ServiceUnitStateData``, ``BrokerLoadData`` and ``TopBundlesLoadData``, so clients find the
same schemas on these topics as on Pulsar's.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_PROPERTIES: Final = (("__jsr310ConversionEnabled", "false"), ("__alwaysAllowNull", "true"))


def _schema(definition: Mapping[str, Any]) -> Schema:
    text = json.dumps(definition, separators=(",", ":"))
    return Schema("", text.encode(), RawSchema.Json, _PROPERTIES)


def _schemas() -> Mapping[str, Schema]:
    text = files("counterpoise.broker.peers").joinpath("json_schemas.json").read_text("utf-8")
    return {topic: _schema(definition) for topic, definition in json.loads(text).items()}


SCHEMAS: Final = _schemas()
