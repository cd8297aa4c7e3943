"""``/admin/v2/faults``: sets faults for a test, in clusters started with faults allowed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.access import SUPER_USER
from counterpoise.admin.errors import bad_request, conflict, not_found
from counterpoise.admin.request import answer, object_of_body
from counterpoise.admin.shapes import FLAG, NUMBER, Json, Shape, object_of, text, whole

BASE: Final = "/admin/v2/faults"
FAULT: Final = Shape(
    object_of(
        {
            "operation": text(),
            "topic": text(),
            "client": text(),
            "broker": text(),
            "effect": text("error", "delay", "drop", "disconnect"),
            "code": text(),
            "message": text(),
            "seconds": NUMBER,
            "times": whole(),
            "every": whole(),
            "probability": NUMBER,
            "seed": whole(),
        },
        required=("operation", "effect"),
    )
)
AT_BROKER: Final = Shape(
    object_of(
        {"broker": text(), "fault": text(), "seconds": NUMBER, "end": FLAG},
        required=("broker", "fault"),
    )
)
CLOCK: Final = Shape(object_of({"advance_s": NUMBER}, required=("advance_s",)))
PLACE: Final = Shape(object_of({"topic": text(), "broker": text()}, required=("topic", "broker")))
EXPECT: Final = Shape(
    object_of(
        {
            "what": text("moved", "redelivered", "nothing-lost"),
            "topic": text(),
            "subscription": text(),
            "times": whole(),
            "within_s": NUMBER,
        },
        required=("what", "topic"),
    )
)


class FaultControl(Protocol):
    """Sets a test cluster's faults, by values in JSON.

    Methods raise ValueError for an impossible request, LookupError for a broker or topic that does
    not exist, and AssertionError if what was expected did not happen.
    """

    def faults(self) -> Sequence[Json]:
        """Every fault of client operations that is set, and how often it struck."""

    def events(self) -> Sequence[Json]:
        """What has happened in the cluster since its start, in order."""

    async def set(self, requested: Mapping[str, Json]) -> Json:
        """Set a fault of client operations; returns it with its number."""

    async def remove(self, number: int) -> None:
        """Remove the fault with this number; ignored if there is none."""

    async def clear(self) -> None:
        """Remove every fault: those of client operations and those of whole brokers."""

    async def at_broker(self, requested: Mapping[str, Json]) -> None:
        """Begin or end a fault of a broker."""

    async def place(self, topic: str, broker: str) -> None:
        """Move a topic's bundle to a broker."""

    async def advance(self, seconds: float) -> None:
        """Advance the test clock of all brokers' topics."""

    async def expect(self, requested: Mapping[str, Json]) -> None:
        """Wait until an expected event has happened."""


CONTROL: Final = web.AppKey("faults", FaultControl)


routes = route.Routes()


@routes.get(BASE, SUPER_USER)
async def listed(request: web.Request) -> web.Response:
    """Every fault of operations that is set, and how often it struck."""
    return answer(request.app[CONTROL].faults())


@routes.post(BASE, SUPER_USER, FAULT)
async def post(request: web.Request) -> web.Response:
    """Set a fault; the answer has its number."""
    with refusals():
        return answer(await request.app[CONTROL].set(object_of_body(request)))


@routes.delete(BASE, SUPER_USER, {"number": whole()})
async def remove(request: web.Request) -> None:
    """Remove the fault of this ``number``; without one all faults, and end those of brokers."""
    number, control = request.query.get("number"), request.app[CONTROL]
    with refusals():
        await (control.clear() if number is None else control.remove(int(number)))


@routes.get(f"{BASE}/events", SUPER_USER)
async def events(request: web.Request) -> web.Response:
    """What has happened in the cluster since its start, in order."""
    return answer(request.app[CONTROL].events())


@routes.post(f"{BASE}/brokers", SUPER_USER, AT_BROKER)
async def at_broker(request: web.Request) -> None:
    """Begin or end a fault of a broker."""
    with refusals():
        await request.app[CONTROL].at_broker(object_of_body(request))


@routes.post(f"{BASE}/place", SUPER_USER, PLACE)
async def place(request: web.Request) -> None:
    """Move a topic's bundle, with all of its topics, to a broker."""
    requested = object_of_body(request)
    with refusals():
        await request.app[CONTROL].place(requested["topic"], requested["broker"])


@routes.post(f"{BASE}/clock", SUPER_USER, CLOCK)
async def clock(request: web.Request) -> None:
    """Advance the test clock of all brokers' topics."""
    with refusals():
        await request.app[CONTROL].advance(object_of_body(request)["advance_s"])


@routes.post(f"{BASE}/expect", SUPER_USER, EXPECT)
async def expect(request: web.Request) -> None:
    """Wait until an expected event has happened; 409 with all events if it does not."""
    with refusals():
        await request.app[CONTROL].expect(object_of_body(request))


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the exceptions of `FaultControl` into statuses with a reason."""
    try:
        yield
    except LookupError as error:
        raise not_found(str(error)) from None
    except ValueError as error:
        raise bad_request(str(error)) from None
    except AssertionError as error:
        raise conflict(str(error)) from None
