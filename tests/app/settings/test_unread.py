"""Settings that are accepted and do nothing: listed, warned about, checked against the code."""

import ast
import logging
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise import Cluster
from counterpoise.admin.policies import OF_NAMESPACE, POLICIES, TOPIC_POLICIES
from counterpoise.app.doctor.examine import examine
from counterpoise.app.doctor.setup import Setup
from counterpoise.app.settings.accepted import set_and_unread, unread
from counterpoise.app.settings.pulsar import pulsar_settings
from counterpoise.app.settings.table import ROOMS
from counterpoise.names.options import options_of, sections_of
from counterpoise.names.properties import Properties
from tests.admin.conftest import Api

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "src" / "counterpoise").rglob("*.py"))


def test_the_page_says_what_the_code_does() -> None:
    printed = (ROOT / "docs" / "UNREAD.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / "scripts" / "unread_page.py"))["page"]
    assert printed == page(), "write it again: python scripts/unread_page.py > docs/UNREAD.md"


def fields(settings: type) -> Iterator[tuple[str, str]]:
    for name, option in options_of(settings):
        yield name, option.conf
    for _, inner in sections_of(settings):
        yield from fields(inner)


def test_every_option_that_a_room_declares_is_read_somewhere() -> None:
    read = {
        node.attr
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    unread_fields = {
        conf for _, settings in ROOMS for field, conf in fields(settings) if field not in read
    }
    assert not unread_fields


def test_a_policy_is_read_where_it_is_said_to_be_and_nowhere_else() -> None:
    brokers = "".join(
        path.read_text(encoding="utf-8")
        for path in SOURCES
        if path.relative_to(ROOT / "src" / "counterpoise").parts[0] in ("broker", "security")
        and path.name != "applied.py"
    )
    for policy in (*POLICIES, *TOPIC_POLICIES):
        names = {name for pair in OF_NAMESPACE.items() if policy.name in pair for name in pair}
        is_named = any(f'"{name}"' in brokers for name in names | {policy.name})
        assert is_named == policy.is_read, policy.name


@pytest.mark.parametrize(
    ("values", "unread"),
    [
        ({}, []),
        ({"functionsWorkerEnabled": "true"}, ["functionsWorkerEnabled"]),
        ({"functionsWorkerEnabled": "FALSE"}, []),
        ({"functionsWorkerEnabled": " "}, []),
        ({"maxProducersPerTopic": "0"}, []),
        ({"backlogQuotaDefaultLimitGB": "-1"}, []),
        (
            {"functionsWorkerEnabled": "true", "webSocketServiceEnabled": "true"},
            ["functionsWorkerEnabled", "webSocketServiceEnabled"],
        ),
        ({"defaultNumberOfNamespaceBundles": "7", "noSuchName": "1"}, []),
    ],
)
def test_a_value_that_is_not_the_default_is_warned_about(
    values: dict[str, str], unread: list[str]
) -> None:
    assert set_and_unread(values) == unread
    rules = {each.rule for each in examine(Setup(Properties(values), None, None))}
    assert ("unread-by-counterpoise" in rules) == bool(unread)


def test_every_dynamic_setting_of_pulsars_can_be_set_and_the_log_says_what_does_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = "/admin/v2/brokers/configuration"
    with Cluster(brokers=1) as cluster, caplog.at_level(logging.WARNING):
        api = Api(cluster.admin_url)
        dynamic = {each.name for each in pulsar_settings().values() if each.dynamic}
        assert dynamic <= set(api.get(at))
        assert api("POST", f"{at}/dispatchThrottlingRatePerReplicatorInMsg/5").status == 204
        assert "dispatchThrottlingRatePerReplicatorInMsg" in caplog.text
        assert "dispatchThrottlingRatePerReplicatorInMsg" in unread()
        caplog.clear()
        assert api("POST", f"{at}/defaultNumPartitions/5").status == 204
        assert "read by nothing" not in caplog.text
        ours = "/admin/v2/namespaces/public/default"
        rate = {"dispatchThrottlingRateInMsg": 5}
        assert api("POST", f"{ours}/replicatorDispatchRate", rate).status == 204
        assert "public/default: the policy replicatorDispatchRate is stored" in caplog.text
        quorums = {f"bookkeeper{each}": 2 for each in ("Ensemble", "WriteQuorum", "AckQuorum")}
        assert api("POST", f"{ours}/persistence", quorums).status == 204
        assert "persistence is stored, and without effect: messages are not on" in caplog.text
