"""Range queries of Prometheus's HTTP API: retries transient errors, reports others exactly."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiohttp
import orjson

from counterpoise.load.rates import Floats
from counterpoise.pipeline.collect.words import error_text, line
from counterpoise.pipeline.prometheus.answer import AnswerError, RangeAnswer, parse_answer
from counterpoise.pipeline.prometheus.source import SeriesError, SeriesOutline, TooManyValuesError
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

BODY_MOST: Final = 512 << 20
"""The most bytes of one response."""
OUTLINE_POINTS: Final = 200
_TRIES: Final = 5
_AT_ONCE: Final = 2
_PASSES: Final = (408, 429, 500, 502, 503, 504)
_TOO_MUCH: Final = ("exceeded maximum resolution", "too many samples", "too large", "limit")


class PrometheusApi:
    """One Prometheus, or another server with its API (Thanos, Mimir, VictoriaMetrics).

    At most two queries run concurrently.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        match: str = "",
        *,
        timeout_s: float = 120.0,
        first_pause_s: float = 1.0,
    ) -> None:
        """`match` is a label matcher for every series, in PromQL: ``job="pulsar"``."""
        self._session = session
        self._url = url.rstrip("/")
        self._match = match
        self._timeout_s = timeout_s
        self._first_pause_s = first_pause_s
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def address(self) -> str:
        """The server's URL as messages show it, without credentials."""
        scheme, _, rest = self._url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    async def outline(self, name: str, grid: TimeGrid) -> SeriesOutline:
        """Find at which times there are series of this name, how many, and of which clusters."""
        by = "topic" if name == "pulsar_rate_in" else "bundle"
        selected = _selector(name, self._match, f'{by}!=""')
        counted = f"count by (cluster) ({selected})"
        found, coarse = await self._asked_coarsely(counted, grid)
        if not found.labels:
            await self._explain_nothing(name, grid)
        clusters = {_cluster(each): _most(found.values[n]) for n, each in enumerate(found.labels)}
        present = coarse.moments[(found.values > 0).any(axis=0)]
        # Times before the first series are left out: many servers keep less than a month.
        skipped = max(0, (int(present[0]) - coarse.step_ms - grid.first_ms) // grid.step_ms)
        first_ms = grid.first_ms + skipped * grid.step_ms
        whole = TimeGrid(first_ms, grid.step_ms, grid.count - skipped)
        return SeriesOutline(whole, sum(clusters.values()), clusters)

    async def values(self, name: str, labels: Mapping[str, str], grid: TimeGrid) -> RangeAnswer:
        """Query the values of the series with this name and these labels at the times of a grid.

        Raises `SeriesError` and `TooManyValuesError`.
        """
        wanted = (f"{label}={json.dumps(value)}" for label, value in sorted(labels.items()))
        return await self._asked(_selector(name, self._match, *wanted), grid)

    async def _asked_coarsely(self, query: str, grid: TimeGrid) -> tuple[RangeAnswer, TimeGrid]:
        """Query only some of the grid's times, fewer if the server refuses so many.

        Returns the answer, and the grid of the times that were queried.
        """
        points = OUTLINE_POINTS
        while True:
            coarse = grid.every(-(-grid.count // points))
            try:
                return await self._asked(query, coarse), coarse
            except TooManyValuesError as error:
                if coarse.count == 1:
                    raise SeriesError(
                        f"{self.address} cannot count its series: {error}; raise its limits "
                        "(--query.max-samples, --query.timeout), or choose less by --match"
                    ) from None
                points = max(1, min(points, coarse.count) // 4)

    async def _explain_nothing(self, name: str, grid: TimeGrid) -> None:
        counted = f"count({_selector(name, self._match)})"
        other, _ = await self._asked_coarsely(counted, grid)
        there = f"{self.address} has no series {name} of topics"
        if other.labels:
            raise SeriesError(
                f"{there}, only sums by namespace, which do not say which bundle carries what: set "
                "exposeTopicLevelMetricsInPrometheus=true (or exposeBundlesMetricsInPrometheus=true"
                " under the modular load manager, and --by bundles here) in broker.conf; a history "
                "begins when the brokers have it"
            )
        wanted = f" with {self._match}" if self._match else ""
        raise SeriesError(
            f"{self.address} has no series {name}{wanted} in that time: see that this Prometheus "
            "scrapes /metrics of the brokers, that --from is not before what it keeps, and that "
            "--match and --cluster are right"
        )

    async def _asked(self, query: str, grid: TimeGrid) -> RangeAnswer:
        """Make a range query, again after transient errors."""
        pause_s, trouble = self._first_pause_s, ""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(pause_s)
                pause_s *= 2
            try:
                async with self._turns:
                    body = await self._fetched(query, grid)
                return await asyncio.to_thread(parse_answer, body, grid)
            except TimeoutError as error:
                if grid.count > 1:
                    raise TooManyValuesError(f"no answer within {self._timeout_s:g} s") from error
                trouble = f"no answer within {self._timeout_s:g} s"
            except (aiohttp.ClientError, OSError, AnswerError, _PassingError) as error:
                trouble = error_text(error)
        raise SeriesError(
            f"{self.address} does not answer: {trouble} ({_TRIES} tries): see that --prometheus is "
            "its address and that it runs, then start again; what was imported stays"
        )

    async def _fetched(self, query: str, grid: TimeGrid) -> bytes:
        form = {
            "query": query,
            "start": f"{grid.first_ms / 1000:.3f}",
            "end": f"{grid.last_ms / 1000:.3f}",
            "step": f"{grid.step_ms / 1000:.3f}",
        }
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        url = f"{self._url}/api/v1/query_range"
        try:
            # Redirects are not followed: the credentials are for this server alone.
            request = self._session.post(url, data=form, timeout=timeout, allow_redirects=False)
            async with request as reply:
                body = await _body(reply)
                if 300 <= reply.status < 400:
                    where = line(reply.headers.get("Location", "nowhere"))
                    raise SeriesError(
                        f"{self.address} redirects to {where}: give that address, if it is the "
                        "Prometheus that is meant"
                    )
                if reply.status == 200:
                    return body
                raise self._refused(reply.status, _reason(body), grid)
        except aiohttp.ClientSSLError as error:
            raise SeriesError(
                f"{self.address}: {error_text(error)}: name the authorities to trust "
                "(--prometheus-ca)"
            ) from None
        except aiohttp.InvalidURL as error:
            raise SeriesError(f"--prometheus: {error_text(error)}") from None

    def _refused(self, status: int, reason: str, grid: TimeGrid) -> Exception:
        """Make the exception for a response whose status is not 200."""
        text = f"HTTP {status} {reason}".strip()
        small = reason.lower()
        if grid.count > 1 and (
            status in (413, 422)
            or (status in (400, 503) and any(words in small for words in (*_TOO_MUCH, "timed out")))
        ):
            return TooManyValuesError(text)
        if status in _PASSES:
            return _PassingError(text)
        advice = {
            401: "give a token or a password (--prometheus-token-file, --prometheus-user-file)",
            403: "the token or user may not read it",
            404: "it has no /api/v1/query_range: give the address that Grafana has for it",
        }.get(status, "see what it says of the query")
        return SeriesError(f"{self.address}: {text}: {advice}")


class _PassingError(Exception):
    """The server failed in a way that may pass: the request is retried."""


async def _body(reply: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in reply.content.iter_any():
        size += len(part)
        if size > BODY_MOST:
            raise TooManyValuesError(f"an answer of more than {BODY_MOST:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(body: bytes) -> str:
    try:
        return line(str(orjson.loads(body)["error"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return line(body[:300].decode(errors="replace"))


def _selector(name: str, *matches: str) -> str:
    given = ",".join(each for each in matches if each)
    return f"{name}{{{given}}}" if given else name


def _cluster(labels: bytes) -> str:
    found: Any = orjson.loads(labels)
    return str(found.get("cluster", ""))


def _most(values: Floats | Sequence[float]) -> int:
    return int(max((each for each in values if each == each), default=0))
