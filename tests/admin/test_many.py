"""Ten thousand partitions are asked a few at a time."""

import asyncio
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from counterpoise.admin import many
from counterpoise.admin.errors import RestError, conflict, not_found
from counterpoise.admin.many import AT_ONCE, Patience, ask_each, try_all, try_each

NO_REQUEST = cast("web.Request", None)


class Asked:
    """Answers after some turns of the loop; knows how many waited at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, request: object, method: str, path: str, **_: Any) -> str:
        del request, method
        self.now += 1
        self.most = max(self.most, self.now)
        for _turn in range(len(path) % 5):
            await asyncio.sleep(0)
        self.now -= 1
        if path == "7":
            raise not_found(path)
        return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(many, "ask", made)
    return made


async def test_answers_come_in_order_however_few_are_asked_at_once(asked: Asked) -> None:
    paths = [str(number) for number in range(10_000)]
    answers = await try_each(NO_REQUEST, "GET", paths)
    assert asked.most == AT_ONCE
    assert [each for each in answers if not isinstance(each, Exception)] == [
        each for each in paths if each != "7"
    ]
    assert str(answers[7]) == "7"


async def test_the_first_is_asked_first() -> None:
    begun: list[int] = []

    async def question(number: int) -> int:
        begun.append(number)
        return number

    questions = [partial(question, number) for number in range(100)]
    assert await try_all(questions) == begun == list(range(100))


async def test_a_refusal_is_passed_on(asked: Asked) -> None:
    with pytest.raises(Exception, match="7"):
        await ask_each(NO_REQUEST, "GET", map(str, range(10)))
    assert await ask_each(NO_REQUEST, "GET", []) == []
    assert asked.now == 0


CONFLICTS = conflict("there already")
GONE = aiohttp.ClientConnectionError("no broker there")


@pytest.mark.parametrize(
    ("unless_all", "failures", "raised"),
    [
        (None, {"1": CONFLICTS}, CONFLICTS),
        (None, {"1": GONE}, GONE),
        (HTTPStatus.CONFLICT, {"1": CONFLICTS}, None),
        (HTTPStatus.CONFLICT, {"1": CONFLICTS, "2": CONFLICTS}, CONFLICTS),
        (HTTPStatus.CONFLICT, {"1": CONFLICTS, "2": GONE}, CONFLICTS),
        (HTTPStatus.CONFLICT, {"2": GONE}, GONE),
        (HTTPStatus.NOT_FOUND, {"1": CONFLICTS}, CONFLICTS),
    ],
)
async def test_only_a_refusal_with_the_status_is_ignored_and_only_if_a_path_is_answered(
    monkeypatch: pytest.MonkeyPatch,
    unless_all: HTTPStatus | None,
    failures: Mapping[str, Exception],
    raised: Exception | None,
) -> None:
    async def ask(_request: object, _method: str, path: str, **_: Any) -> str:
        if path in failures:
            raise failures[path]
        return path

    monkeypatch.setattr(many, "ask", ask)
    asking = ask_each(NO_REQUEST, "PUT", ("1", "2"), unless_all=unless_all)
    if raised is None:
        assert await asking == ["2"]
    else:
        with pytest.raises(type(raised)) as found:
            await asking
        assert found.value is raised


@pytest.mark.parametrize(
    ("statuses", "asked", "patience_s"),
    [([503, 503], 3, 60.0), ([503, 412], 2, 60.0), ([503], 1, 0.0), ([], 1, 60.0)],
    ids=["repeated", "another refusal", "no time left", "answered at once"],
)
async def test_what_is_refused_while_a_bundle_moves_is_asked_again(
    statuses: list[int], asked: int, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "PATIENCE_S", patience_s)
    answers = iter(statuses)
    calls = 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        status = next(answers, None)
        if status is not None:
            raise RestError(status, "it moves")
        return "done"

    if statuses in ([], [503, 503]):
        assert await Patience().repeat(call) == "done"
    else:
        with pytest.raises(RestError, match="it moves"):
            await Patience().repeat(call)
    assert calls == asked
