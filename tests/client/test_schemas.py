"""Schemas: registered by producers, checked for consumers, carried by version."""

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String, StringSchema

from tests.client.conftest import SOON

pytestmark = pytest.mark.client

FIRST_VERSION = "\0" * 8
"""The client shows versions as text: eight bytes, counted from zero."""


class Person(Record):
    name = String()
    age = Integer()


class Place(Record):
    street = String()
    number = Integer(required=True)


def test_json(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=JsonSchema(Person))
    producer = client.create_producer(topic, schema=JsonSchema(Person))
    producer.send(Person(name="Ada", age=36))
    message = consumer.receive(SOON)
    assert (message.value().name, message.value().age) == ("Ada", 36)
    assert message.schema_version() == FIRST_VERSION


def test_strings(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    producer = client.create_producer(topic, schema=StringSchema())
    producer.send("grüße")
    assert consumer.receive(SOON).value() == "grüße"


def test_an_incompatible_schema_is_refused(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=JsonSchema(Person))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=JsonSchema(Place))


def test_the_same_schema_twice_is_one_version(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=JsonSchema(Person))
    for name in ("a", "b"):
        producer = client.create_producer(topic, schema=JsonSchema(Person))
        producer.send(Person(name=name, age=1))
    assert {consumer.receive(SOON).schema_version() for _ in range(2)} == {FIRST_VERSION}
