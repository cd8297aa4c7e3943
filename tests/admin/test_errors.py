"""What status a handler's error becomes, and what a query parameter that is left blank means."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from counterpoise.admin.errors import STATUS_OF_CODE, RestError, answer_errors
from counterpoise.admin.request import flag
from counterpoise.broker.face import (
    BadVersion,
    BrokerError,
    NotEmpty,
    NotFound,
    StoreUnavailable,
)
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


def test_every_code_with_a_status_is_one_of_the_protocols() -> None:
    assert set(STATUS_OF_CODE) <= {each.name for each in ServerError}


@pytest.mark.parametrize(
    ("query", "default", "found"),
    [("", True, True), ("?a=", True, True), ("?a=", False, False), ("?a=FALSE", True, False)],
)
def test_a_parameter_left_blank_has_its_default(query: str, default: bool, found: bool) -> None:
    assert flag(make_mocked_request("GET", f"/x{query}"), "a", default) is found
