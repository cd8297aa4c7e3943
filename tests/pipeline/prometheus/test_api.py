"""Queries of a Prometheus: which are asked again and when, and what is too much at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from counterpoise.pipeline.prometheus.api import PrometheusApi
from counterpoise.pipeline.prometheus.source import SeriesError, TooManyValuesError
from counterpoise.pipeline.prometheus.time_grid import TimeGrid
from tests.quota.jumping import now_ns, on_jumping_loop

FIRST_MS, STEP_MS = 1_700_000_040_000, 60_000
ONE, MANY = TimeGrid(FIRST_MS, STEP_MS, 1), TimeGrid(FIRST_MS, STEP_MS, 3)
Answer = tuple[int, bytes] | Exception


def matrix(*series: tuple[dict[str, str], dict[int, float]]) -> bytes:
    """An answer with values by the number of their minute."""
    result = [
        {"metric": labels, "values": [[FIRST_MS // 1000 + 60 * n, f"{v}"] for n, v in at.items()]}
        for labels, at in series
    ]
    return json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}}
    ).encode()


def error(status: int, words: str) -> Answer:
    return status, json.dumps({"status": "error", "error": words}).encode()


class Server:
    """Gives these answers one after the other, the last for ever; each takes a second."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = [*answers]
        self.asked: list[dict[str, str]] = []
        self.under_way = self.most_under_way = 0

    @asynccontextmanager
    async def post(self, _: str, *, data: dict[str, str], **__: object) -> AsyncIterator[Any]:
        self.asked.append(data)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(1.0)
        self.under_way -= 1
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, Exception):
            raise found
        status, body = found

        async def parts() -> AsyncIterator[bytes]:
            yield body

        yield SimpleNamespace(status=status, headers={}, content=SimpleNamespace(iter_any=parts))

    def api(self, url: str = "http://ann:secret@p:9090/") -> PrometheusApi:
        return PrometheusApi(cast("aiohttp.ClientSession", self), url)


GOOD: Answer = (200, matrix(({"topic": "t"}, {0: 7.0})))


@pytest.mark.parametrize(
    "passing",
    [
        *(error(status, "busy") for status in (408, 429, 500, 502, 503, 504)),
        aiohttp.ClientConnectionError("reset"),
        (200, GOOD[1][:-9]),
    ],
)
@pytest.mark.parametrize("times", [1, 4, 5])
def test_what_passes_is_asked_again_after_a_pause_that_doubles(passing: Answer, times: int) -> None:
    server = Server(*[passing] * times, GOOD)

    @on_jumping_loop
    async def asked() -> None:
        if times < 5:
            found = await server.api().values("pulsar_rate_in", {}, ONE)
            assert found.values.tolist() == [[7.0]]
        else:
            with pytest.raises(SeriesError, match=r"^http://p:9090 does not answer: .*\(5 tries\)"):
                await server.api().values("pulsar_rate_in", {}, ONE)
        pauses_s = 2 ** min(times, 4) - 1
        assert now_ns() == (len(server.asked) + pauses_s) * 10**9
        assert len(server.asked) == min(times + 1, 5)

    asked()


@pytest.mark.parametrize(
    ("answer", "is_too_much"),
    [
        (error(413, "body"), True),
        (error(422, "it would load too many samples"), True),
        (error(400, "exceeded maximum resolution of 11,000 points"), True),
        (error(503, "query timed out in expression evaluation"), True),
        (TimeoutError(), True),
        (error(400, "parse error"), False),
        (error(404, "page not found"), False),
    ],
)
def test_of_too_much_less_is_asked_for_unless_it_is_a_single_moment(
    answer: Answer, is_too_much: bool
) -> None:
    server = Server(answer)

    @on_jumping_loop
    async def asked() -> None:
        with pytest.raises(TooManyValuesError if is_too_much else SeriesError):
            await server.api().values("pulsar_rate_in", {}, MANY)
        assert len(server.asked) == 1
        with pytest.raises(SeriesError) as raised:
            await server.api().values("pulsar_rate_in", {}, ONE)
        assert "secret" not in str(raised.value)

    asked()


def test_two_queries_are_under_way_at_most() -> None:
    server = Server(GOOD)

    @on_jumping_loop
    async def asked() -> None:
        api = server.api()
        await asyncio.gather(*(api.values(f"s{n}", {}, ONE) for n in range(5)))

    asked()
    assert (server.most_under_way, len(server.asked)) == (2, 5)


def test_what_is_read_begins_no_later_than_the_first_series() -> None:
    """A look at every fifth moment may miss the four before the one at which it saw some."""
    grid = TimeGrid(FIRST_MS, STEP_MS, 1000)
    found = matrix(({"cluster": "c"}, {50: 3.0, 55: 7.0, 60: 5.0}), ({}, {60: 2.0}))
    server = Server((200, found))

    @on_jumping_loop
    async def asked() -> None:
        outline = await server.api().outline("pulsar_rate_in", grid)
        assert outline.grid == TimeGrid(FIRST_MS + 45 * STEP_MS, STEP_MS, 955)
        assert outline.grid.last_ms == grid.last_ms
        assert (outline.most, outline.clusters) == (9, {"c": 7, "": 2})

    asked()
