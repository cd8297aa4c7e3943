"""What requests about faults ask of a cluster, and how it is said that it cannot be."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from counterpoise.admin.errors import RestError
from counterpoise.admin.request import BODY
from counterpoise.admin.rest import faults
from counterpoise.admin.shapes import InvalidBody

SET = {"operation": "SEND", "effect": "drop"}
AT_BROKER = {"broker": "b:1", "fault": "freeze", "end": True}
PLACE = {"topic": "t", "broker": "b:1"}
EXPECT = {"what": "moved", "topic": "t"}


class Control:
    """A cluster's faults, that notes what it is asked."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._failure = failure

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def later(*what: object) -> str:
            self.asked.append((name, *what))
            if self._failure is not None:
                raise self._failure
            return f"done {name}"

        return later if name not in ("faults", "events") else lambda: [name]


def requested(control: Control, body: object = None, query: str = "") -> web.Request:
    app = web.Application()
    app[faults.CONTROL] = cast("faults.FaultControl", control)
    request = make_mocked_request("POST", f"/{query}", app=app)
    request[BODY] = body
    return request


CHANGES: list[tuple[str, str, object, tuple[object, ...]]] = [
    ("post", "", SET, ("set", SET)),
    ("remove", "?number=7", None, ("remove", 7)),
    ("remove", "", None, ("clear",)),
    ("at_broker", "", AT_BROKER, ("at_broker", AT_BROKER)),
    ("place", "", PLACE, ("place", "t", "b:1")),
    ("clock", "", {"advance_s": 2.5}, ("advance", 2.5)),
    ("expect", "", EXPECT, ("expect", EXPECT)),
]


@pytest.mark.parametrize(("handler", "query", "body", "asked"), CHANGES)
async def test_a_request_asks_for_what_it_says_or_says_why_not(
    handler: str, query: str, body: object, asked: tuple[object, ...]
) -> None:
    control = Control()
    answer = await getattr(faults, handler)(requested(control, body, query))
    assert control.asked == [asked]
    assert (answer is None) == (handler != "post"), "done, and nothing to say but the number"
    if answer is not None:
        assert answer.text == '"done set"'
    for failure, status in (
        (KeyError("no such"), HTTPStatus.NOT_FOUND),
        (ValueError("no such"), HTTPStatus.BAD_REQUEST),
        (AssertionError("no such"), HTTPStatus.CONFLICT),
    ):
        with pytest.raises(RestError, match="no such") as refused:
            await getattr(faults, handler)(requested(Control(failure), body, query))
        assert refused.value.status == status


async def test_what_is_set_and_what_has_happened_are_lists() -> None:
    assert (await faults.listed(requested(Control()))).text == '["faults"]'
    assert (await faults.events(requested(Control()))).text == '["events"]'


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        (faults.FAULT, SET),
        (faults.AT_BROKER, {"broker": "b:1", "fault": "freeze"}),
        (faults.CLOCK, {"advance_s": 1}),
        (faults.PLACE, PLACE),
        (faults.EXPECT, EXPECT),
    ],
)
def test_every_member_is_needed(shape: Any, body: dict[str, object]) -> None:
    assert shape.check(body) == body
    for name in body:
        for wrong in ({each: body[each] for each in body if each != name}, {**body, name: []}):
            with pytest.raises(InvalidBody):
                shape.check(wrong)
