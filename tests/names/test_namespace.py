import re

import pytest
from hypothesis import given

from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName, bound_to_broker, is_left_in_place

from .strategies import namespaces


@given(namespaces)
def test_a_namespace_reads_back_as_it_was_written(namespace):
    assert NamespaceName.parse(str(namespace)) == namespace


@pytest.mark.parametrize("text", ["", "a", "a/b/c", "/b", "a/", "a b/c", "a/b!"])
def test_what_is_no_namespace_is_refused(text):
    with pytest.raises(InvalidName, match=r"expected tenant/namespace|must be letters"):
        NamespaceName.parse(text)


@pytest.mark.parametrize(
    ("text", "heartbeat", "sla"),
    [
        ("pulsar/10.0.0.1:8080", True, False),
        ("pulsar/broker-1:8080", True, False),
        ("sla-monitor/broker-1:8080", False, True),
        ("pulsar/system", False, False),
        ("pulsar/other", False, False),
        ("pulsar/broker-1:", False, False),
        ("pulsar/broker-8080", False, False),
        ("sla-monitor/broker-8080", False, False),
        ("public/broker-1:8080", False, False),
    ],
)
def test_namespaces_pulsar_keeps_for_itself(text, heartbeat, sla):
    namespace = NamespaceName.parse(text)
    assert (namespace.is_heartbeat, namespace.is_sla_monitor) == (heartbeat, sla)
    assert namespace.bound_broker == (namespace.local if heartbeat or sla else None)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("pulsar/host:8080", True),
        ("pulsar/standalone/host:8080", True),
        ("sla-monitor/standalone/host:8080", True),
        ("sla-monitor/host:8080", False),
        ("pulsar/system", False),
        ("pulsar/a/b/host:8080", False),
        ("pulsar/host:80:80", False),
        ("bundle-1", False),
    ],
)
def test_what_a_shedder_never_touches(text, bound):
    assert bound_to_broker(text) is bound


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("pulsar/system", True),
        ("pulsar/system2", False),
        ("pulsar/host:8080", True),
        ("public/default", False),
    ],
)
def test_what_the_balancer_leaves_in_place(text, stays):
    assert is_left_in_place(text) is stays


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("./n", "the tenant must not be '.'"),
        ("t/..", "the namespace must not be '..'"),
        ("t" * 256 + "/n", "the tenant has 256 characters, at most 255"),
        ("t/" + "n" * 256, "the namespace has 256 characters, at most 255"),
    ],
)
def test_names_that_no_store_can_keep_are_refused(text, why):
    with pytest.raises(InvalidName, match=re.escape(why)):
        NamespaceName.parse(text)


def test_the_longest_names_are_taken():
    assert str(NamespaceName.parse("t" * 255 + "/" + "n" * 255)).endswith("n")
