"""How the answers of authorization are passed on to a client."""

from typing import Any, cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization, SubscriptionRefused, TenantMissing
from counterpoise.security.gate import Security
from counterpoise.security.options import AuthenticationOptions
from counterpoise.wire.errors import ServerError
from tests.broker.connection import one_broker
from tests.broker.connection.raw_client import RawClient
from tests.wire.frames import Type

TOPIC = TopicName.parse("persistent://t/n/x")
NAMESPACE = NamespaceName.parse("t/n")


class Answers:
    """Authorization with one answer to everything."""

    def __init__(self, answer: bool | Exception, *, enabled: bool = True) -> None:
        self.answer, self.enabled = answer, enabled

    async def topic(self, *_question: object) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    namespace = super_user = topic


async def outcome(asking: Any) -> object:
    try:
        return await asking
    except BrokerError as error:
        return error.code, error.message


DENIED = ServerError.AuthorizationError, "not you"


@pytest.mark.parametrize(
    ("answer", "of_topic", "of_namespace"),
    [
        (True, None, None),
        (False, DENIED, DENIED),
        (
            TenantMissing(),
            (ServerError.TopicNotFound, "Tenant or namespace or topic does not exist: t/n"),
            DENIED,
        ),
        (SubscriptionRefused("no such name"), (DENIED[0], "no such name"), None),
    ],
)
async def test_each_answer_reaches_the_client_as_pulsar_words_it(
    answer: bool | Exception, of_topic: object, of_namespace: object
) -> None:
    permits = ClientPermissions(cast("Authorization", Answers(answer)))
    assert await outcome(permits.topic(TOPIC, "CONSUME", "not you", "s")) == of_topic
    if not isinstance(answer, SubscriptionRefused):
        found = await outcome(permits.namespace(NAMESPACE, "GET_TOPICS", "not you"))
        assert found == of_namespace


@pytest.mark.parametrize("answer", [False, True])
async def test_without_authorization_every_client_may_do_everything(answer: bool) -> None:
    for enabled in (False, True):
        authorization = cast("Authorization", Answers(answer, enabled=enabled))
        permits = ClientPermissions(authorization)
        may = answer or not enabled
        assert permits.unlimited is not enabled
        assert await permits.is_superuser() is may
        for asking in (
            permits.topic(TOPIC, "PRODUCE", "not you"),
            permits.namespace(NAMESPACE, "GET_TOPICS", "not you"),
        ):
            assert await outcome(asking) == (None if may else DENIED)


def test_each_command_asks_for_its_own_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Answers):
        """Allows all, and remembers what it was asked."""

        def __init__(self) -> None:
            super().__init__(answer=True)
            self.questions: list[tuple[str, ...]] = []

        async def topic(self, _: object, *question: object) -> bool:
            self.questions.append(tuple(map(str, question)))
            return True

        namespace = topic

    asked = Asked()
    security = Security(Authentication(AuthenticationOptions()), cast("Authorization", asked))
    monkeypatch.setattr(one_broker, "OPEN_TO_ALL", security)
    with one_broker.OneBroker() as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.command("partition_metadata", topic=str(TOPIC), request_id=1)
        client.receive(Type.PARTITIONED_METADATA_RESPONSE)
        client.command("lookup_topic", topic=str(TOPIC), request_id=2)
        client.receive(Type.LOOKUP_RESPONSE)
        client.subscribe(str(TOPIC), name="sub")
        client.produce(str(TOPIC))
        client.command("get_topics_of_namespace", namespace=str(NAMESPACE), request_id=3)
        client.receive(Type.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    assert asked.questions == [
        (str(TOPIC), "LOOKUP", "None"),
        (str(TOPIC), "LOOKUP", "None"),
        (str(TOPIC), "CONSUME", "sub"),
        (str(TOPIC), "PRODUCE", "None"),
        (str(NAMESPACE), "GET_TOPICS"),
    ]
