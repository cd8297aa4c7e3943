"""The HTTP API of a Prometheus that has given series, and misbehaves when it is asked to."""

import asyncio
import re
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.pipeline.prometheus.played import Series

_MATCH = re.compile(r'(\w+)(=|!=)"((?:[^"\\]|\\.)*)"')
_QUERY = re.compile(r"(?:count(?P<by> by \(cluster\))? ?\()?(?P<name>\w+)(?:\{(?P<match>.*)\})?\)?")


@dataclass
class Fault:
    """What the next queries get in place of an answer."""

    status: int = 200
    error: str = ""
    hang: bool = False
    cut: int = 0
    """After so many bytes the answer ends."""
    points_more_than: int = 0
    """Only queries of more moments are struck."""
    outline: bool = False
    """Only queries that count series are, else only others."""
    times: int = 1


@dataclass
class FakePrometheus:
    """Answers `query_range` as Prometheus spells it."""

    series: Sequence[Series]
    shown: str = ""
    """What each request has to show as its authorization."""
    redirects_to: str = ""
    tls: ssl.SSLContext | None = None
    warnings: tuple[str, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    queries: list[tuple[str, int]] = field(default_factory=list)
    """Each query, and of how many moments."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        query = str(form["query"])
        first, last, step = (
            round(float(str(form[name])) * 1000) for name in ("start", "end", "step")
        )
        points = (last - first) // step + 1
        self.queries.append((query, points))
        if self.redirects_to:
            raise web.HTTPTemporaryRedirect(self.redirects_to)
        if self.shown and request.headers.get("Authorization") != self.shown:
            return web.Response(status=401, text="unauthorized")
        if points > 11_000:
            return _error(400, "exceeded maximum resolution of 11,000 points per timeseries.")
        body = self.body(query, range(first, last + 1, step))
        for fault in self.faults:
            outline = query.startswith("count") is fault.outline
            if fault.times and outline and points > fault.points_more_than:
                fault.times -= 1
                return await _struck(fault, request, body)
        return web.Response(body=body, content_type="application/json")

    def body(self, query: str, moments: range) -> bytes:
        found = _QUERY.fullmatch(query)
        assert found, query
        matches = [
            (label, sign == "=", orjson.loads(f'"{value}"'))
            for label, sign, value in _MATCH.findall(found["match"] or "")
        ]
        chosen = [
            each
            for each in self.series
            if each.name == found["name"]
            and all((each.labels.get(label, "") == value) is same for label, same, value in matches)
        ]
        if query.startswith("count"):
            result = _counted(chosen, moments, by=bool(found["by"]))
        else:
            result = [
                _matrix({"__name__": each.name, **each.labels}, each.values, moments)
                for each in chosen
            ]
        document: dict[str, Any] = {
            "status": "success",
            "data": {"resultType": "matrix", "result": [each for each in result if each["values"]]},
        }
        if self.warnings:
            document["warnings"] = list(self.warnings)
        return orjson.dumps(document)


@asynccontextmanager
async def playing(prometheus: FakePrometheus) -> AsyncIterator[FakePrometheus]:
    """Serve it on a port of loopback."""
    app = web.Application(client_max_size=1 << 20)
    app.router.add_post("/api/v1/query_range", prometheus.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=prometheus.tls)
    await site.start()
    prometheus.url = f"http{'s' if prometheus.tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield prometheus
    finally:
        await runner.cleanup()


async def _struck(fault: Fault, request: web.Request, body: bytes) -> web.StreamResponse:
    if fault.hang:
        await asyncio.Event().wait()
    if fault.cut:
        reply = web.StreamResponse()
        reply.content_length = len(body)
        await reply.prepare(request)
        await reply.write(body[: fault.cut])
        assert request.transport is not None
        request.transport.close()
        return reply
    return _error(fault.status, fault.error)


def _error(status: int, error: str) -> web.Response:
    document = {"status": "error", "errorType": "execution", "error": error}
    return web.Response(status=status, body=orjson.dumps(document))


def _matrix(labels: dict[str, str], values: dict[int, float], moments: range) -> dict[str, Any]:
    there = [(at, values[at]) for at in moments if at in values]
    return {"metric": labels, "values": [[_seconds(at), _number(value)] for at, value in there]}


def _counted(chosen: list[Series], moments: range, *, by: bool) -> list[dict[str, Any]]:
    counts: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for each in chosen:
        cluster = each.labels.get("cluster", "") if by else ""
        for at in each.values:
            counts[cluster][at] += 1
    return [
        _matrix({"cluster": cluster} if cluster else {}, values, moments)
        for cluster, values in counts.items()
    ]


def _seconds(moment_ms: int) -> float | int:
    return moment_ms // 1000 if moment_ms % 1000 == 0 else moment_ms / 1000


def _number(value: float) -> str:
    """As Go writes a float."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
