"""What status a handler's error becomes, and what a query parameter that is left blank means."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from counterpoise.admin.errors import STATUS_OF_CODE, RestError, answer_errors, refuse
from counterpoise.admin.request import flag
from counterpoise.admin.shapes import InvalidBody
from counterpoise.broker.face import BadVersion, BrokerError, NotEmpty, NotFound, StoreUnavailable
from counterpoise.names.errors import InvalidName
from counterpoise.names.options import ConfigError
from counterpoise.wire.errors import ServerError


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RestError(418, "short"), 418, "short"),
        (BrokerError(ServerError.ConsumerBusy, "busy"), 412, "busy"),
        (BrokerError(ServerError.ProducerBusy, "busy"), 412, "busy"),
        (BrokerError(ServerError.TopicNotFound, "none"), 404, "none"),
        (BrokerError(ServerError.AuthorizationError, "no"), 403, "no"),
        (BrokerError(ServerError.IncompatibleSchema, "no"), 409, "no"),
        (BrokerError(ServerError.NotAllowedError, "no"), 405, "no"),
        (BrokerError(ServerError.TooManyRequests, "no"), 429, "no"),
        (BrokerError(ServerError.ServiceNotReady, "later"), 503, "later"),
        (BrokerError(ServerError.UnknownError, "odd"), 500, "odd"),
        (InvalidName("x", "odd"), 412, str(InvalidName("x", "odd"))),
        (ConfigError("x", "odd"), 412, "x: odd"),
        (NotFound("/a"), 404, "it is not there (any more): /a: no such metadata node"),
        *(
            (each, 409, f"another request is changing it, try again: {each}")
            for each in (BadVersion("/a"), NotEmpty("/a"))
        ),
        (StoreUnavailable("a", "gone"), 503, str(StoreUnavailable("a", "gone"))),
        (web.HTTPNotFound(), 404, "Not Found"),
        (web.HTTPBadRequest(reason="odd"), 400, "odd"),
        (InvalidBody("the body is odd"), 400, "the body is odd"),
        (web.RequestPayloadError("cut"), 400, "the body cannot be read: cut"),
        *(
            (BrokerError(ServerError[code], "no"), status, "no")
            for code, status in (
                ("SubscriptionNotFound", 404),
                ("ConsumerNotFound", 404),
                ("MetadataError", 500),
                ("PersistenceError", 500),
                ("AuthenticationError", 401),
                ("InvalidTopicName", 412),
                ("TopicTerminatedError", 412),
                ("TransactionCoordinatorNotFound", 404),
                ("TransactionNotFound", 404),
                ("InvalidTxnStatus", 409),
            )
        ),
        (ValueError("odd"), 500, "ValueError: odd"),
    ],
    ids=repr,
)
async def test_an_error_becomes_a_status_and_a_reason(
    error: Exception, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what no client can have caused is logged, with the request that it came of."""

    async def fails(_: web.Request) -> web.StreamResponse:
        raise error

    answer = await answer_errors(make_mocked_request("GET", "/x"), fails)
    assert isinstance(answer, web.Response)
    assert answer.status == status
    assert json.loads(answer.text or "") == {"reason": reason}
    unforeseen = type(error) is ValueError
    assert caplog.messages == (["GET /x failed"] if unforeseen else [])


async def test_a_redirect_is_no_error() -> None:
    async def redirects(_: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("http://b:1")

    with pytest.raises(web.HTTPTemporaryRedirect):
        await answer_errors(make_mocked_request("GET", "/x"), redirects)


def test_the_status_line_has_the_reason_in_letters_that_it_may_have() -> None:
    assert refuse(409, "no 'é'\nhere").reason == "no '?'?here"
    assert len(refuse(409, "x" * 2000).reason or "") == 1024
    assert refuse(401, "Authentication required").reason == "Unauthorized"


def test_every_code_with_a_status_is_one_of_the_protocols() -> None:
    assert set(STATUS_OF_CODE) <= {each.name for each in ServerError}


@pytest.mark.parametrize(
    ("query", "default", "found"),
    [
        ("?a=true", False, True),
        ("", True, True),
        ("?a=", True, True),
        ("?a=", False, False),
        ("?a=FALSE", True, False),
    ],
)
def test_a_parameter_left_blank_has_its_default(query: str, default: bool, found: bool) -> None:
    assert flag(make_mocked_request("GET", f"/x{query}"), "a", default) is found


@pytest.mark.parametrize("text", ["yes", "1", "truex", " true"])
def test_a_parameter_is_true_or_false(text: str) -> None:
    with pytest.raises(RestError, match="expected true or false") as refused:
        flag(make_mocked_request("GET", f"/x?a={text.replace(' ', '%20')}"), "a")
    assert refused.value.status == 412
