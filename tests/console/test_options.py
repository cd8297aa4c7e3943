"""The options of a console: its role in the cluster, and the settings that its advice follows."""

import base64
import json
from pathlib import Path

import pytest

from counterpoise.app.clusters.throwaway_security import ThrowAwaySecurity
from counterpoise.app.verbs.console import drain_rules_of, strategy_of
from counterpoise.console.roles import Operator
from counterpoise.names.properties import Properties
from counterpoise.security.client import ClientSecurity
from counterpoise.security.options import ClientOptions


def jwt(subject: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": subject}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (ClientOptions(), "anonymous (no credential is presented to the cluster)"),
        (ClientOptions("token", f"token:{jwt('ann')}"), "ann (the console's own token)"),
        (ClientOptions("basic", "userId:bob,password:x"), "bob (the console's own password)"),
    ],
    ids=str,
)
def test_an_operator_is_named_by_what_is_shown(options: ClientOptions, name: str) -> None:
    assert Operator(ClientSecurity(options)).name == name


def test_a_token_file_that_vanished_is_reported_and_breaks_no_page(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt("ann"), "utf-8")
    operator = Operator(ClientSecurity(ClientOptions("token", file.as_uri())))
    file.unlink()
    assert operator.name.startswith("the console's own token, which is out of reach: ")


def test_signing_in_does_not_lend_the_consoles_own_certificate() -> None:
    made = ThrowAwaySecurity(tls=True, tokens=False)
    certificate, key = made.client_certificate("admin")
    shown = f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    console = ClientSecurity(ClientOptions("tls", shown, trust=made.trust_certs))
    assert Operator(console).name == "the console's own certificate"
    for token, headers in (("theirs", {"Authorization": "Bearer theirs"}), ("", {})):
        other = console.as_another(token)
        assert other.headers() == headers
        assert Operator(other).name != Operator(console).name
        assert [each["subject"] for each in other.context().get_ca_certs()] == [
            each["subject"] for each in console.context().get_ca_certs()
        ]


def test_ones_own_settings_win_over_the_clusters() -> None:
    cluster = {"loadBalancerLoadSheddingStrategy": "org.apache.pulsar.x.ThresholdShedder"}
    assert strategy_of(cluster)[0].shedder.name == "ThresholdShedder"
    own = Properties({"loadBalancerLoadSheddingStrategy": "AvgShedder"})
    assert strategy_of(cluster, own)[0].shedder.name == "AvgShedder"
    isolated = drain_rules_of({}, Properties({"loadBalancerBrokerMaxTopics": "7"}))
    assert isolated != drain_rules_of({})
