"""What a watchdog reports, and which remedies it carries out, finding by finding."""

from typing import Any, cast

import pytest

from counterpoise.decide.watchdog.judge import KINDS
from counterpoise.decide.watchdog.observation import (
    ClusterObservation,
    WatchdogFinding,
    WatchdogMemory,
)
from counterpoise.pipeline.notify.notice import BalancerNotices, Notice, NoticeSeverity
from counterpoise.pipeline.watchdog import watchdog as module
from counterpoise.pipeline.watchdog.watchdog import Watchdog

START = 1_700_000_000_000
A, B = (f"public/default/0x{n:08x}_0x{n + 1:08x}" for n in range(2))
WELL = ClusterObservation(START, ("b1:80",), owned={"b1:80": {A: True}})


class Script:
    """Shows a watchdog these findings, one look after the other, and stands for the cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.seen = WELL
        self.findings: tuple[WatchdogFinding, ...] = ()
        self.said: list[str] = []
        self.looked_up: list[tuple[str, str]] = []
        self.fails: Exception | None = None
        self.counted: list[dict[str, int]] = []
        monkeypatch.setattr(module, "judge", lambda *_: (self.findings, WatchdogMemory()))
        self.watchdog = Watchdog(
            *[cast("Any", self)] * 4, self.said.append, metrics=cast("Any", self), **options
        )

    async def observe(self, _: object) -> ClusterObservation:
        return self.seen

    async def owner(self, bundle: str, broker: str) -> str:
        self.looked_up.append((bundle, broker))
        if self.fails is not None:
            raise self.fails
        return "b2:80"

    def found(self, counts: dict[str, int]) -> None:
        self.counted.append(counts)

    async def look(self, *findings: WatchdogFinding) -> list[str]:
        """What it says of these findings."""
        self.findings = findings
        self.said.clear()
        await self.watchdog.judge_poll(cast("Any", None))
        return [*self.said]


def unowned(*bundles: str, broker: str = "b1:80") -> WatchdogFinding:
    return WatchdogFinding(
        "no-owner", bundles[0], START, "no broker owns it", "lookup", broker, cause="gone:80",
        bundles=bundles,
    )  # fmt: skip


async def test_of_a_finding_that_grows_the_new_bundles_alone_are_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, remedies=True)
    assert len(await script.look(unowned(A))) == 2
    assert await script.look(unowned(A)) == []
    said = await script.look(unowned(A, B))
    assert said == [f"remedy for {B}: lookup at b1:80 is done: it is at b2:80 now"]
    assert script.looked_up == [(A, "b1:80"), (B, "b1:80")]
    assert [each.split(":")[0] for each in await script.look()] == ["over"]


async def test_an_operator_is_notified_once_of_what_is_wrong_and_once_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[Notice] = []
    script = Script(monkeypatch, notices=BalancerNotices(noted.append, lambda: START))
    for findings in ([unowned(A)], [unowned(A, B)], [], []):
        await script.look(*findings)
    assert [(each.severity, each.is_over) for each in noted] == [
        (NoticeSeverity.CRITICAL, False),
        (NoticeSeverity.INFO, True),
    ]
    assert {each.subject for each in noted} == {f"no-owner:{A}"}


async def test_without_the_option_nothing_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    assert len(await script.look(unowned(A))) == 1
    assert script.looked_up == []


@pytest.mark.parametrize(
    ("broker", "fails", "said"),
    [
        ("", None, "is not possible: no broker could be asked"),
        ("b1:80", ValueError("no bundle"), "at b1:80 failed: "),
        ("b1:80", TimeoutError(), "at b1:80 failed: "),
    ],
)
async def test_a_remedy_that_is_not_possible_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, broker: str, fails: Exception | None, said: str
) -> None:
    script = Script(monkeypatch, remedies=True)
    script.fails = fails
    _, remedy = await script.look(unowned(A, broker=broker))
    assert remedy.startswith(f"remedy for {A}: lookup {said}")


async def test_a_kind_that_is_over_is_counted_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    await script.look(unowned(A))
    await script.look()
    assert [each["no-owner"] for each in script.counted] == [1, 0]
    assert all(set(each) == set(KINDS) for each in script.counted)


async def test_brokers_that_are_all_silent_are_said_and_no_brokers_at_all_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = WatchdogFinding("not-serving", "b1:80", START, "b1:80 does not answer")
    script = Script(monkeypatch)
    script.seen = ClusterObservation(START, ("b1:80",), silent={"b1:80": "gone"})
    assert len(await script.look(silent)) == 1
    script.seen = ClusterObservation(START, ())
    assert await script.look() == [], "the poll says that nothing answers; nothing is over"
