"""The schema settings of a topic: its policies, else the broker's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.names.options import option
from counterpoise.names.topic import TopicName

STRATEGIES: Final = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
_OF_AUTO_UPDATE: Final = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
"""By value of ``schema_auto_update_compatibility_strategy``, an older policy: its strategy."""


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Settings of schemas: the compatibility strategy, automatic updates, and validation."""

    strategy: str = option("FULL", "schemaCompatibilityStrategy", choices=STRATEGIES)
    """The strategy that decides which schemas a topic accepts besides those it has."""
    auto_update: bool = option(True, "isAllowAutoUpdateSchemaEnabled", dynamic=True)
    """Whether producers may register new versions of a schema."""
    validation_enforced: bool = option(False, "isSchemaValidationEnforced")
    """Whether a producer without a schema is refused by a topic that has one."""


class SchemaPolicies(Protocol):
    """Reads the policies of topics."""

    async def policies_of(self, topic: TopicName) -> Mapping[str, Any]:
        """The policies in force for a topic, by their names in ``TopicPolicies``."""


def rules_for(policies: Mapping[str, Any], options: SchemaOptions) -> SchemaOptions:
    """The schema settings of a topic with these policies; ``options`` where they set nothing."""
    strategy = policies.get("schemaCompatibilityStrategy")
    if strategy not in STRATEGIES[1:]:
        older = policies.get("schema_auto_update_compatibility_strategy")
        strategy = _OF_AUTO_UPDATE.get(str(older), options.strategy)
    allowed = policies.get("is_allow_auto_update_schema")
    return SchemaOptions(
        "FULL" if strategy == "UNDEFINED" else strategy,
        allowed if isinstance(allowed, bool) else options.auto_update,
        policies.get("schemaValidationEnforced") is True or options.validation_enforced,
    )
