"""Judges each poll, alerts once for each cause, and carries out safe remedies on request."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import aiohttp

from counterpoise.decide.watchdog import observation
from counterpoise.decide.watchdog.judge import KINDS, SLOW_BROKER, judge, lost_namespaces
from counterpoise.load.rows import ReportRows
from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.bundle_lookup import BundleLookup
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.notify.notice import BalancerNotices
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watchdog.observer import Observer


@dataclass(slots=True)
class Watchdog:
    """Judges a cluster at each poll; calls `report` when a fault begins and when it is over."""

    session: aiohttp.ClientSession
    lookup: BundleLookup
    looker: Observer
    where: Callable[[str], str]
    """Returns the address of a broker's admin API from the broker's id."""
    report: SentenceSink
    options: observation.WatchdogOptions = field(default_factory=observation.WatchdogOptions)
    remedies: bool = False
    """Whether the safe remedies are carried out."""
    metrics: Metrics | None = None
    notices: BalancerNotices | None = None
    memory: observation.WatchdogMemory = field(default_factory=observation.WatchdogMemory)
    findings: tuple[observation.WatchdogFinding, ...] = ()
    """The faults found at the last poll."""

    @property
    def slow(self) -> frozenset[str]:
        """The brokers that were found slow at the last poll."""
        return frozenset(each.subject for each in self.findings if each.kind == SLOW_BROKER)

    async def judge_poll(self, rows: ReportRows) -> None:
        """Judge the cluster at this poll, and report the alerts that begin or end."""
        seen = await self.looker.observe(rows)
        if not seen.owned and not seen.silent:
            return  # the cluster does not answer at all, which is logged for the poll
        lost = lost_namespaces(seen, self.memory)
        if lost and seen.owned:
            seen = replace(seen, deleted=await self.looker.deleted(lost, min(seen.owned)))
        before = {each.key: each for each in self.findings}
        self.findings, self.memory = judge(seen, self.memory, self.options)
        if self.metrics is not None:
            found = Counter(each.kind for each in self.findings)
            self.metrics.found({kind: found[kind] for kind in KINDS})
        for each in self.findings:
            known = before.get(each.key)
            if known is None:
                self.report(alert_of(each))
                self._notify(each)
            if self.remedies and each.remedy:
                for bundle in each.bundles:
                    if known is None or bundle not in known.bundles:
                        self.report(await self._remedy(each, bundle))
        now = {each.key for each in self.findings}
        for key, each in before.items():
            if key not in now:
                self.report(f"over: {each.kind} of {each.subject}")
                self._notify(each, is_over=True)

    def _notify(self, finding: observation.WatchdogFinding, *, is_over: bool = False) -> None:
        if self.notices is not None:
            self.notices.found(finding, is_over=is_over)

    async def _remedy(self, finding: observation.WatchdogFinding, subject: str) -> str:
        what = f"remedy for {subject}: {finding.remedy}"
        if not finding.broker:
            return f"{what} is not possible: no broker could be asked"
        try:
            bundle = BundleName.parse(subject)
            if finding.remedy == "unload":
                await self._unload(finding.broker, bundle)
            owner = await self.lookup.owner(subject, finding.broker)
        except (*UNREADABLE, ValueError) as error:
            return f"{what} at {finding.broker} failed: {error_text(error)}"
        now = f"it is at {owner} now" if owner else "it has no topic that could be looked up"
        return f"{what} at {finding.broker} is done: {now}"

    async def _unload(self, broker: str, bundle: BundleName) -> None:
        url = f"{self.where(broker)}/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        headers = {"Content-Type": "application/json"}
        async with self.session.put(url, headers=headers) as response:
            if response.status >= 300:
                text = (await response.text()).strip()[:200]
                raise RefusedError(f"HTTP {response.status} {text}", response.status)


def guard(
    session: aiohttp.ClientSession,
    addresses: Sequence[str],
    report: SentenceSink,
    metrics: Metrics | None = None,
    options: observation.WatchdogOptions | None = None,
    notices: BalancerNotices | None = None,
) -> Watchdog:
    """Make a watchdog that only reports, for a command that polls the cluster anyway."""
    admin = Admin(session, AdminOptions())
    where = partial(web_address, addresses=addresses)
    return Watchdog(
        session,
        BundleLookup(admin, where),
        Observer(admin, addresses),
        where,
        report,
        options or observation.WatchdogOptions(),
        metrics=metrics,
        notices=notices,
    )


def alert_of(finding: observation.WatchdogFinding) -> str:
    """A finding as an alert: a sentence, and the remedy or advice."""
    if finding.remedy:
        help_ = f" (--remedy: {finding.remedy}{' at ' + finding.broker if finding.broker else ''})"
    else:
        help_ = f" ({finding.advice})" if finding.advice else ""
    return f"ALERT {finding.kind}: {finding.sentence}{help_}"
