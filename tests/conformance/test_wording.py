"""What Pulsar's own classes say where ours says the same, read from their constants."""

import zipfile

import pytest

from tests.conformance.jars import LIB_VARIABLE, MAIN_VERSION, pulsar_lib

SENTENCES = {
    "org/apache/pulsar/broker/namespace/NamespaceService": "the broker do not have {} listener",
    "org/apache/pulsar/broker/loadbalance/extensions/data/BrokerLookupData": (
        "the broker do not have {} listener"
    ),
}
"""By class: a sentence of it, with a hole where something is put in."""


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_in_the_class(name: str) -> None:
    """Java keeps a sentence with holes as one constant, a 1 in place of each hole."""
    lib = pulsar_lib(fetch=False)
    if lib is None:
        pytest.skip(f"no jars of Pulsar {MAIN_VERSION} here: set {LIB_VARIABLE}")
    with zipfile.ZipFile(lib / f"pulsar-broker-{MAIN_VERSION}.jar") as jar:
        compiled = jar.read(f"{name}.class")
    assert SENTENCES[name].replace("{}", "\1").encode() in compiled
