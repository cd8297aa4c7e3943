"""A broker's other addresses: which are understood, and which a client gets."""

from http import HTTPStatus
from itertools import product

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.wiring import config_of
from counterpoise.broker.base.advertised import listeners_of
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import for_listener
from counterpoise.broker.exposure import exposures
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.options import ConfigError
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.admin.conftest import Api
from tests.broker.bundles.test_lookup import follow
from tests.broker.conftest import BrokersOfTest
from tests.broker.connection.raw_client import RawClient
from tests.ports import free_ports
from tests.wire.frames import Type

TOPIC = TopicName.parse("persistent://public/default/x")
OF_THE_LEADER = TopicName.parse("persistent://pulsar/system/loadbalancer-service-unit-state")
REFUSED = "the broker do not have nowhere listener"


@pytest.mark.parametrize(
    ("entries", "internal", "understood"),
    [
        ("", "", {}),
        ("a:pulsar://h1:6650,,", "a", {"a": ["pulsar://h1:6650"]}),
        (" a : pulsar://h1:6650", "", {"a": ["pulsar://h1:6650"]}),
        (
            "a:pulsar://h1:6650,a:pulsar+ssl://h1:6651",
            "a",
            {"a": ["pulsar://h1:6650", "pulsar+ssl://h1:6651"]},
        ),
        (
            "in:pulsar://h1:6650,Out:pulsar+ssl://h2:6651,out:pulsar://h3:6650",
            "out",
            {
                "out": ["pulsar://h3:6650"],
                "in": ["pulsar://h1:6650"],
                "Out": ["pulsar+ssl://h2:6651"],
            },
        ),
        ("a:http://h1:8090", "a", {"a": ["http://h1:8090"]}),
        ("a:pulsar://[::1]:6650", "a", {"a": ["pulsar://[::1]:6650"]}),
    ],
)
def test_what_is_advertised(entries: str, internal: str, understood: dict[str, list[str]]) -> None:
    """As Pulsar 4.0.7's ``MultipleListenerValidator`` understands it; the internal one is first."""
    found = listeners_of(entries.split(","), internal)
    assert {name: list(urls.values()) for name, urls in found.items()} == understood
    assert list(found) == list(understood)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"advertisedListeners": "a:pulsar://h:1,b:pulsar://h:1"}, "of both a and b"),
        ({"advertisedListeners": "a:pulsar://h:1,a:pulsar://g:1"}, "too many"),
        ({"advertisedListeners": "a:pulsar://h:1,a:pulsar+ssl://h:2,a:http://h:3"}, "too many"),
        ({"advertisedListeners": "pulsar://h:1"}, "not understood"),
        ({"advertisedListeners": "a"}, "not understood"),
        ({"advertisedListeners": "a:kafka://h:1"}, "not understood"),
        ({"advertisedListeners": "a:pulsar://h"}, "not understood"),
        ({"advertisedListeners": "a:pulsar://h:99999999"}, "not understood"),
        (
            {"advertisedListeners": "a:pulsar://h:1", "internalListenerName": "b"},
            "internalListenerName: b is none of",
        ),
        ({"bindAddresses": "a:pulsar://127.0.0.1:0"}, "bindAddresses: a is not among"),
        ({"bindAddresses": "pulsar://127.0.0.1:0"}, "bindAddresses: pulsar://127.0.0.1:0"),
    ],
)
def test_settings_that_do_not_go_together_fail_the_start(
    settings: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        Cluster(brokers=1, config=settings).start()


@pytest.mark.parametrize("manager", [MODULAR, EXTENSIBLE])
async def test_a_client_gets_the_addresses_of_the_listener_it_names(
    brokers: BrokersOfTest, manager: str
) -> None:
    port = free_ports(2) - 1
    for number in (1, 2):
        # Brokers, too, go where the internal listener says: a port that is there, for each.
        inside = f"127.0.0.1:{port + number}"
        await brokers.start(
            filters=FilterOptions(load_manager_class=manager),
            broker_service_port=port + number,
            advertised_listeners=(
                f"out:pulsar://out-{number}:6650",
                f"out:pulsar+ssl://out-{number}:6651",
                f"in:pulsar://{inside}",
            ),
            internal_listener_name="in",
        )
    topics = (TOPIC, OF_THE_LEADER) if manager == EXTENSIBLE else (TOPIC,)
    for asked, topic in product(brokers.all, topics):
        for answer in await follow(brokers, asked.id, topic):
            number = 1 + [each.id for each in brokers.all].index(answer.broker_id)
            assert answer.service_url == f"pulsar://127.0.0.1:{port + number}"
            outside = for_listener("out", answer)
            assert outside.service_url == f"pulsar://out-{number}:6650"
            assert outside.service_url_tls == f"pulsar+ssl://out-{number}:6651"
            assert outside.web_url == answer.web_url
            with pytest.raises(BrokerError, match=REFUSED) as refused:
                for_listener("nowhere", answer)
            assert refused.value.code is ServerError.ServiceNotReady


@pytest.mark.parametrize(
    ("listeners", "seen_by", "sent_to"),
    [
        ({}, "", ("pulsar://in:1", None)),
        ({"in": {"brokerServiceUrl": "pulsar://in:1"}}, "", ("pulsar://in:1", None)),
        ({"in": {}, "out": {}}, "", None),
        (
            {"in": {}, "out": {"brokerServiceUrlTls": "pulsar+ssl://out:1"}},
            "out",
            (None, "pulsar+ssl://out:1"),
        ),
        ({"in": {}}, "out", None),
    ],
)
def test_where_a_client_of_a_topic_that_leaves_is_sent_on(
    listeners: dict[str, dict[str, str]],
    seen_by: str,
    sent_to: tuple[str | None, str | None] | None,
) -> None:
    """Nowhere where it is not known by which of several listeners it comes: it looks it up."""
    assert ServiceUrls("pulsar://in:1", None, listeners).seen_by(seen_by) == sent_to


@pytest.mark.client
def test_the_official_client_by_a_listener() -> None:
    """The internal address leads nowhere, so a client that gets it fails."""
    port = free_ports(2)
    outside = port + 1
    config = {
        "brokerServicePort": port,
        "advertisedListeners": "in:pulsar://127.0.0.1:1,"
        f"out:pulsar://127.0.0.1:{port},extra:pulsar://127.0.0.1:{outside}",
        "bindAddresses": f"extra:pulsar://127.0.0.1:{outside}",
    }
    with Cluster(brokers=1, config=config) as cluster:
        # It names a listener, or connects where one is bound.
        for url, name in (
            (f"pulsar://127.0.0.1:{port}", "out"),
            (f"pulsar://127.0.0.1:{outside}", None),
        ):
            client = pulsar.Client(
                url,
                listener_name=name,
                operation_timeout_seconds=60,
                logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            )
            client.create_producer("public/default/t").send(b"from outside")
            client.close()
        api = Api(cluster.admin_url)
        path = "/lookup/v2/topic/persistent/public/default/t"
        assert api.get(path)["brokerUrl"] == "pulsar://127.0.0.1:1"
        assert api.get(f"{path}?listenerName=out")["brokerUrl"] == f"pulsar://127.0.0.1:{port}"
        answer = api("GET", f"{path}?listenerName=nowhere")
        assert (answer.status, answer.value["reason"]) == (HTTPStatus.SERVICE_UNAVAILABLE, REFUSED)
        raw = RawClient(f"pulsar://127.0.0.1:{outside}")
        raw.connect()
        for name, url in (("", outside), ("out", port)):
            raw.command(
                "lookup_topic", topic=str(TOPIC), request_id=1, advertised_listener_name=name
            )
            found = raw.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
            assert found.broker_service_url == f"pulsar://127.0.0.1:{url}"
        raw.socket.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("a:pulsar://127.0.0.1:1", []),
        ("a:pulsar://0.0.0.0:1", ["ANYBODY who reaches"]),
        ("a:pulsar://[::]:1", ["ANYBODY who reaches"]),
    ],
)
def test_a_further_socket_that_other_machines_reach_is_warned_of(
    address: str, expected: list[str]
) -> None:
    said = list(exposures(config_of({"bindAddresses": address})))
    assert [part in each for part, each in zip(expected, said, strict=True)] == [True] * len(
        expected
    )
