"""Read a cluster's load reports through its admin API.

One contract for every cluster: the list of brokers, and each broker's own
`broker-stats/load-report`, as Pulsar's modular load manager answers it. What cannot be read is a
row too.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from counterpoise.load.fields import LoadDataError
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.report_rows import Row, gap_row, report_digest, report_rows
from counterpoise.load.rows import POLL, ReportRows


class ClusterUnreachableError(ConnectionError):
    """None of the addresses of the cluster answered; the message says what each one said."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Why a broker's report could not be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """One broker's answer and when it came, milliseconds since 1970."""

    broker: str
    at_ms: int
    answer: LocalBrokerData | Gap


class Collector:
    """Polls a cluster; remembers only what it needs to tell a report it has already seen.

    `addresses` are admin URLs, tried in turn; the web addresses of brokers seen at the last poll
    are tried after them, so that losing the broker we were pointed at is a gap and not the end.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Sequence[str],
        clock_ms: Callable[[], int],
        *,
        after_poll: int = 0,
    ) -> None:
        self._session = session
        self._addresses = tuple(url.rstrip("/") for url in addresses)
        self._clock_ms = clock_ms
        self._last_poll = after_poll
        self._digests: dict[str, int] = {}

    async def poll(self) -> ReportRows:
        """The rows of one poll. Never raises for a cluster that does not answer: that is a gap."""
        self._last_poll = poll_id = max(self._clock_ms(), self._last_poll + 1)
        try:
            brokers = await self._brokers()
        except ClusterUnreachableError as error:
            return self._rows(poll_id, str(error), [])
        fetched = await asyncio.gather(*(self._report(broker) for broker in sorted(brokers)))
        return self._rows(poll_id, "", fetched)

    async def _brokers(self) -> list[str]:
        refusals = []
        known = (f"http://{broker}" for broker in sorted(self._digests))
        for address in dict.fromkeys((*self._addresses, *known)):
            try:
                listed = await self._get(f"{address}/admin/v2/brokers")
            except _UNREADABLE as error:
                refusals.append(f"{address}: {_said(error)}")
                continue
            if isinstance(listed, list):
                return [str(broker) for broker in listed]
            refusals.append(f"{address}: the list of brokers is not a list")
        raise ClusterUnreachableError("; ".join(refusals))

    async def _report(self, broker: str) -> Fetched:
        answer: LocalBrokerData | Gap
        try:
            document = await self._get(f"http://{broker}/admin/v2/broker-stats/load-report")
            answer = (
                Gap("the broker has no load report")
                if document is None
                else (LocalBrokerData.from_json(document, f"load report of {broker}"))
            )
        except _UNREADABLE as error:
            answer = Gap(_said(error))
        return Fetched(broker, self._clock_ms(), answer)

    async def _get(self, url: str) -> Any:
        async with self._session.get(url) as response:
            text = await response.text()
            if response.status != 200:
                raise _RefusedError(f"HTTP {response.status} {text.strip()[:200]}".strip())
            return json.loads(text)

    def _rows(self, poll_id: int, trouble: str, fetched: Sequence[Fetched]) -> ReportRows:
        at_ms = fetched[-1].at_ms if fetched else poll_id
        rows: list[Row] = [{"kind": POLL, "note": trouble, "fetched_at_ms": at_ms}]
        digests = dict(self._digests) if trouble else {}
        for one in fetched:
            if isinstance(one.answer, Gap):
                rows.append(gap_row(one.broker, one.at_ms, one.answer.reason))
                if one.broker in self._digests:
                    digests[one.broker] = self._digests[one.broker]
                continue
            digest = report_digest(one.answer)
            fresh = self._digests.get(one.broker) != digest
            digests[one.broker] = digest
            rows += report_rows(one.broker, one.at_ms, one.answer, digest=digest, fresh=fresh)
        self._digests = digests
        for seq, row in enumerate(rows):
            row |= {"poll_id": poll_id, "seq": seq}
        return ReportRows.of(rows)


class _RefusedError(Exception):
    """An answer that is not a report."""


_UNREADABLE = (
    aiohttp.ClientError,
    asyncio.TimeoutError,
    json.JSONDecodeError,
    UnicodeDecodeError,
    LoadDataError,
    _RefusedError,
)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
