"""The parameters that occur in paths and queries, each with the check of its value."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import check_entity
from counterpoise.names.topic import NON_PERSISTENT, PERSISTENT, check_local_name

TEXT_MAX = 1024
"""The most bytes of a name that Pulsar does not restrict otherwise."""
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kind of parameter: its description, its check, and its JSON schema."""

    about: str
    check: Callable[[str], None]
    """Check a value; raises `InvalidName` for an impossible one."""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


def whole_number(text: str) -> int:
    """A whole number as Java's ``Long.parseLong`` reads it; raises `InvalidName`."""
    if _WHOLE.fullmatch(text) is None or int(text) not in _LONG:
        raise InvalidName(text, "not a whole number of 64 bits")
    return int(text)


def check_text(text: str) -> None:
    """Raise `InvalidName` for text that is empty, longer than `TEXT_MAX` bytes, or not UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidName(text, "not text in UTF-8") from None
    if not size or size > TEXT_MAX or "\0" in text:
        raise InvalidName(text, f"expected 1 to {TEXT_MAX} bytes of text")


def _entity(kind: str) -> Callable[[str], None]:
    return lambda text: check_entity(text, kind, text)


def _any(text: str) -> None:
    """Accept any text: the handler checks it, because what is valid depends on the request."""


def _topic(text: str) -> None:
    check_local_name(text)


def _number(text: str) -> None:
    whole_number(text)


_ENTITY = {"type": "string", "pattern": "^[-=:.\\w]+$", "maxLength": 255}
_INT64 = {"type": "integer", "format": "int64"}

PARAMETERS: Mapping[str, Parameter] = {
    "tenant": Parameter("a tenant's name", _entity("tenant"), _ENTITY),
    "namespace": Parameter("a namespace's name within its tenant", _entity("namespace"), _ENTITY),
    "cluster": Parameter("a cluster's name", _entity("cluster"), _ENTITY),
    "failureDomain": Parameter("a failure domain's name", _entity("failure domain"), _ENTITY),
    "resourcegroup": Parameter("a resource group's name", _entity("resource group"), _ENTITY),
    "domain": Parameter(
        "whether messages are stored", _any, {"enum": [PERSISTENT, NON_PERSISTENT]}
    ),
    "topic": Parameter("a topic's name within its namespace", _topic),
    "subscription": Parameter("a subscription's name", check_text),
    "bundle": Parameter("a bundle's range, 0x…_0x…", _any),
    "policy": Parameter("an isolation policy's name", check_text),
    "broker": Parameter("a broker's id, host:webPort", check_text),
    "key": Parameter("a property's name", check_text),
    "version": Parameter("a schema's version, from 0", _number, _INT64),
    "group": Parameter("a group's name", check_text),
    "role": Parameter("a role's name", check_text),
    "name": Parameter("a setting's name", check_text),
    "value": Parameter("a setting's value", _any),
    "kind": Parameter("what is looked up", _any, {"enum": ["topic", "destination"]}),
    "count": Parameter("how many messages", _number, _INT64),
    "messagePosition": Parameter("which message, counted from 1", _number, _INT64),
    "ledgerId": Parameter("a ledger's number", _number, _INT64),
    "entryId": Parameter("an entry's number within its ledger", _number, _INT64),
    "timestamp": Parameter("milliseconds since 1970", _number, _INT64),
    "coordinatorId": Parameter("a transaction coordinator's number", _number, _INT64),
    "mostSigBits": Parameter("the coordinator of a transaction", _number, _INT64),
    "leastSigBits": Parameter("a transaction's number at its coordinator", _number, _INT64),
    "timeout": Parameter("for how long a transaction may be open, in ms", _number, _INT64),
    "expireTimeInSeconds": Parameter("an age in seconds", _number, _INT64),
}
"""How each path parameter is parsed, by its name; routes may have no others."""
