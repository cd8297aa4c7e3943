"""Which schema settings are in force: a topic's policies, its namespace's, or the broker's."""

from typing import Any

import pytest

from counterpoise.broker.schemas.rules import SchemaOptions, rules_for

NEW, OLD = "schemaCompatibilityStrategy", "schema_auto_update_compatibility_strategy"
BROKER = SchemaOptions("BACKWARD", auto_update=True, validation_enforced=False)


@pytest.mark.parametrize(
    ("policies", "strategy"),
    [
        ({}, "BACKWARD"),
        ({NEW: None, OLD: None}, "BACKWARD"),
        ({NEW: "FORWARD"}, "FORWARD"),
        ({NEW: "FORWARD", OLD: "Full"}, "FORWARD"),
        ({NEW: "UNDEFINED"}, "BACKWARD"),
        ({NEW: "UNDEFINED", OLD: "ForwardTransitive"}, "FORWARD_TRANSITIVE"),
        ({OLD: "AutoUpdateDisabled"}, "ALWAYS_INCOMPATIBLE"),
        ({OLD: "AlwaysCompatible"}, "ALWAYS_COMPATIBLE"),
        ({OLD: "Backward"}, "BACKWARD"),
        ({OLD: "Forward"}, "FORWARD"),
        ({OLD: "Full"}, "FULL"),
        ({OLD: "BackwardTransitive"}, "BACKWARD_TRANSITIVE"),
        ({OLD: "FullTransitive"}, "FULL_TRANSITIVE"),
        ({OLD: "Unheard"}, "BACKWARD"),
    ],
)
def test_the_newer_policy_decides_then_the_older_one_then_the_broker(
    policies: dict[str, Any], strategy: str
) -> None:
    assert rules_for(policies, BROKER).strategy == strategy


def test_where_nothing_is_set_the_strategy_is_pulsars_default() -> None:
    assert SchemaOptions().strategy == "FULL"
    assert SchemaOptions().auto_update
    assert not SchemaOptions().validation_enforced
    assert rules_for({}, SchemaOptions("UNDEFINED")).strategy == "FULL"


@pytest.mark.parametrize("of_broker", [True, False])
@pytest.mark.parametrize("of_namespace", [True, False, None])
def test_a_namespace_decides_about_updates_and_can_only_add_validation(
    of_broker: bool, of_namespace: bool | None
) -> None:
    options = SchemaOptions(auto_update=of_broker, validation_enforced=of_broker)
    policies = {
        "is_allow_auto_update_schema": of_namespace,
        "schemaValidationEnforced": of_namespace,
    }
    found = rules_for(policies, options)
    assert found.auto_update is (of_broker if of_namespace is None else of_namespace)
    assert found.validation_enforced is (of_broker or of_namespace is True)
