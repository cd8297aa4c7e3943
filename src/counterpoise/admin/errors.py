"""The errors of the REST API: a status and ``{"reason": …}``."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from counterpoise.admin.shapes import InvalidBody
from counterpoise.broker import face
from counterpoise.names.errors import InvalidName
from counterpoise.names.options import ConfigError

_LINE_MAX = 1_024
"""The most characters of a reason in the status line, as in Jetty."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)

STATUS_OF_CODE: dict[str, HTTPStatus] = {
    "TopicNotFound": HTTPStatus.NOT_FOUND,
    "SubscriptionNotFound": HTTPStatus.NOT_FOUND,
    "ConsumerNotFound": HTTPStatus.NOT_FOUND,
    "MetadataError": HTTPStatus.INTERNAL_SERVER_ERROR,
    "PersistenceError": HTTPStatus.INTERNAL_SERVER_ERROR,
    "AuthenticationError": HTTPStatus.UNAUTHORIZED,
    "AuthorizationError": HTTPStatus.FORBIDDEN,
    "ConsumerBusy": HTTPStatus.PRECONDITION_FAILED,
    "ProducerBusy": HTTPStatus.PRECONDITION_FAILED,
    "ServiceNotReady": HTTPStatus.SERVICE_UNAVAILABLE,
    "InvalidTopicName": HTTPStatus.PRECONDITION_FAILED,
    "TopicTerminatedError": HTTPStatus.PRECONDITION_FAILED,
    "NotAllowedError": HTTPStatus.METHOD_NOT_ALLOWED,
    "IncompatibleSchema": HTTPStatus.CONFLICT,
    "TransactionCoordinatorNotFound": HTTPStatus.NOT_FOUND,
    "TransactionNotFound": HTTPStatus.NOT_FOUND,
    "InvalidTxnStatus": HTTPStatus.CONFLICT,
    "TooManyRequests": HTTPStatus.TOO_MANY_REQUESTS,
}
"""The HTTP status for the name of each ``ServerError`` of the binary protocol."""


class RestError(Exception):
    """A refused request: its HTTP status, and the reason (Pulsar's ``RestException``)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


# Each makes an error with its status from a reason.
not_found: Final = partial(RestError, HTTPStatus.NOT_FOUND)
"""404: what the request names does not exist."""
conflict: Final = partial(RestError, HTTPStatus.CONFLICT)
"""409: what the request creates exists already, what it deletes is not empty, or another request
changed it first."""
precondition_failed: Final = partial(RestError, HTTPStatus.PRECONDITION_FAILED)
"""412: the request names something malformed, or something in a state that does not allow it."""
not_allowed: Final = partial(RestError, HTTPStatus.METHOD_NOT_ALLOWED)
"""405: what the request names has no such operation."""
bad_request: Final = partial(RestError, HTTPStatus.BAD_REQUEST)
"""400: the request contains an impossible value."""


@contextmanager
def refused(error: type[Exception], refusal: RestError) -> Iterator[None]:
    """Raise ``refusal`` instead of this exception."""
    try:
        yield
    except error:
        raise refusal from None


def refuse(status: int, reason: str) -> web.Response:
    """Make the HTTP response of an error: its reason as JSON, which Pulsar's admin clients show.

    As in Pulsar the status line has the reason, too, because the Java client's lookups show that
    line; not so with 401.
    """
    line = None
    if status != HTTPStatus.UNAUTHORIZED:
        line = "".join(each if " " <= each <= "~" else "?" for each in reason[:_LINE_MAX])
    return web.json_response({"reason": reason}, status=status, reason=line)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The middleware that turns the exception of a handler into a status and a reason."""
    try:
        return await handler(request)
    except RestError as error:
        return refuse(error.status, error.reason)
    except face.TooLarge as error:
        return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error.message)
    except face.BrokerError as error:
        status = STATUS_OF_CODE.get(error.code.name, HTTPStatus.INTERNAL_SERVER_ERROR)
        return refuse(status, error.message)
    except (InvalidName, ConfigError) as error:
        return refuse(HTTPStatus.PRECONDITION_FAILED, str(error))
    except web.RequestPayloadError as error:
        return refuse(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}")
    except InvalidBody as error:
        return refuse(HTTPStatus.BAD_REQUEST, str(error))
    except face.NotFound as error:
        return refuse(HTTPStatus.NOT_FOUND, f"it is not there (any more): {error}")
    except (face.BadVersion, face.NotEmpty) as error:
        return refuse(HTTPStatus.CONFLICT, f"another request is changing it, try again: {error}")
    except face.StoreUnavailable as error:
        return refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return refuse(error.status, error.reason)
    except Exception as error:
        log.exception("%s %s failed", request.method, request.path_qs)
        return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
