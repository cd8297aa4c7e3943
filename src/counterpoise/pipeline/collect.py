"""Read a cluster's load reports through its admin API.

One contract for every cluster: the list of brokers, and each broker's own
`broker-stats/load-report`, as Pulsar's modular load manager answers it. What cannot be read is a
row too.
"""

import asyncio
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from counterpoise.load.fields import LoadDataError
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.pipeline.rows import BROKER, BUNDLE, GAP, POLL, RESOURCES, ReportRows

Row = dict[str, Any]


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


def report_digest(report: LocalBrokerData) -> int:
    """CRC-32 of all that the report says."""
    return zlib.crc32(json.dumps(report.to_json(), sort_keys=True).encode())


def report_rows(
    broker: str, at_ms: int, report: LocalBrokerData, *, digest: int, fresh: bool
) -> list[Row]:
    """The row of a broker's report and, when it is fresh, those of its bundles."""
    common = {
        "broker": broker,
        "fetched_at_ms": at_ms,
        "report_at_ms": report.last_update,
        "age_ms": at_ms - report.last_update,
        "fresh": fresh,
        "digest": digest,
    }
    usage = {
        f"{name}_{part}": float(getattr(getattr(report, name), part))
        for name in RESOURCES
        for part in ("usage", "limit")
    }
    of_broker: Row = {
        **common,
        "kind": BROKER,
        **usage,
        "msg_rate_in": report.msg_rate_in,
        "msg_rate_out": report.msg_rate_out,
        "msg_throughput_in": report.msg_throughput_in,
        "msg_throughput_out": report.msg_throughput_out,
        "topics": report.num_topics,
        "bundles": report.num_bundles,
        "producers": report.num_producers,
        "consumers": report.num_consumers,
        "web_service_url": report.web_service_url or "",
        "pulsar_service_url": report.pulsar_service_url or "",
        "broker_version": report.broker_version_string or "",
        "load_manager": report.load_manager_class_name or "",
        "persistent_topics": report.persistent_topics_enabled,
        "non_persistent_topics": report.non_persistent_topics_enabled,
        "started_at_ms": report.start_timestamp,
    }
    if not fresh:
        return [of_broker]
    stats = report.last_stats.items()
    return [of_broker, *(_bundle_row(common, name, bundle) for name, bundle in stats)]


def _bundle_row(common: Row, name: str, stats: NamespaceBundleStats) -> Row:
    return {
        **common,
        "kind": BUNDLE,
        "bundle": name,
        "digest": zlib.crc32(name.encode()),
        "msg_rate_in": stats.msg_rate_in,
        "msg_rate_out": stats.msg_rate_out,
        "msg_throughput_in": stats.msg_throughput_in,
        "msg_throughput_out": stats.msg_throughput_out,
        "topics": stats.topics,
        "producers": stats.producer_count,
        "consumers": stats.consumer_count,
        "cache_size": stats.cache_size,
    }


def gap_row(broker: str, at_ms: int, reason: str) -> Row:
    """The row of a broker that is listed and could not be read."""
    return {"kind": GAP, "broker": broker, "fetched_at_ms": at_ms, "note": reason}
