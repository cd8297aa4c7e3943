"""What a watchdog takes brokers to own, by reports that leave open and answers that settle it."""

from collections.abc import Collection
from typing import cast

import pytest

from counterpoise.pipeline.collect.admin import RefusedError
from counterpoise.pipeline.collect.owned import Ownership, Whose
from counterpoise.pipeline.watchdog.reported import MOST, REMEMBERED_MS, Reported
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name

A, B, C = (bundle_name(number) for number in range(3))
ONE, TWO = "b1:80", "b2:80"
OWN = f"pulsar/{ONE}/0x00000000_0xffffffff"
EVERY_MS = 5000


class Answers:
    """Stands for the brokers: whose a bundle is, by its name, and who was asked."""

    def __init__(self, **options: int) -> None:
        self.owners: dict[str, Whose] = {}
        self.fails: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.reported = Reported(cast("Ownership", self), **options)

    async def whose(self, bundle: str, broker: str, _: Collection[str]) -> Whose:
        self.asked.append((bundle, broker))
        if broker in self.fails:
            raise RefusedError("not now")
        return self.owners.get(bundle, Whose())

    async def look(
        self, number: float, polled: dict[str, Loads | None]
    ) -> tuple[dict[str, set[str]], set[str]]:
        """The bundles of each broker after a poll, and the brokers that did not answer."""
        self.asked.clear()
        self.reported.add_poll(poll(number, polled))
        there = [broker for broker, loads in polled.items() if loads is not None]
        owned, silent = await self.reported.owned(there, START + round(number * EVERY_MS))
        return {broker: set(bundles) for broker, bundles in owned.items()}, set(silent)


async def test_two_reports_of_a_bundle_make_no_two_owners_before_both_were_asked() -> None:
    both: dict[str, Loads | None] = {ONE: {A: 1.0}, TWO: {A: 1.0}}
    hurried = Answers(most=0)
    owned, _ = await hurried.look(0, both)
    assert sorted(map(len, owned.values())) == [0, 1]
    asked = Answers()
    asked.owners[A] = Whose(TWO)
    assert await asked.look(0, both) == ({ONE: set(), TWO: {A}}, set())
    assert sorted(asked.asked) == [(A, ONE), (A, TWO)]


async def test_what_is_open_is_asked_first_and_then_what_was_not_for_longest() -> None:
    answers = Answers(most=1)
    answers.owners |= {A: Whose(ONE), B: Whose(ONE), C: Whose(TWO)}
    well: dict[str, Loads | None] = {ONE: {A: 1.0, B: 1.0}, TWO: {C: 1.0}}
    asked = []
    for number in range(4):
        await answers.look(number, well)
        asked += [bundle for bundle, _ in answers.asked]
    assert sorted(asked[:3]) == sorted([A, B, C])
    assert asked[3] == asked[0]
    newest = asked[3]
    for number in (4, 5):
        moved = {ONE: {A: 1.0, B: 1.0, newest: 1.0}, TWO: {C: 1.0, newest: 1.0}}
        await answers.look(number, cast("dict[str, Loads | None]", moved))
        assert {bundle for bundle, _ in answers.asked} == {newest}


async def test_a_new_report_without_bundles_says_that_there_are_none() -> None:
    """Where one that was read before repeats none of them."""
    reported = Answers(most=0).reported
    for number, loads, repeated, expected in (
        (0, {A: 1.0}, (), {A}),
        (1, {}, (ONE,), {A}),
        (2, {}, (), set()),
    ):
        reported.add_poll(poll(number, {ONE: loads}, repeated=repeated))
        owned, _ = await reported.owned([ONE], START + number * EVERY_MS)
        assert set(owned[ONE]) == expected


async def test_the_brokers_own_bundles_are_never_asked_for_and_are_theirs() -> None:
    answers = Answers()
    owned, _ = await answers.look(0, {ONE: {OWN: 1.0, A: 1.0}, TWO: {OWN: 1.0}})
    assert {bundle for bundle, _ in answers.asked} == {A}
    assert any(OWN in bundles for bundles in owned.values())


async def test_a_bundle_is_asked_for_ten_minutes_after_its_last_report() -> None:
    """Of any broker, and what it said last counts while it says nothing."""
    answers = Answers()
    answers.owners[A] = Whose(ONE)
    last = 3 * EVERY_MS
    for number in range(4):
        await answers.look(number, {ONE: {A: 1.0}})
    answers.owners |= {A: Whose(ONE, active=False), B: Whose(ONE)}
    number = (last + REMEMBERED_MS - 1) / EVERY_MS
    assert await answers.look(4, {ONE: {B: 1.0}}) == ({ONE: {A, B}}, set())
    assert sorted(answers.asked) == [(A, ONE), (B, ONE)], (
        "it is not reported any more, and so is asked for"
    )
    del answers.owners[B]
    assert await answers.look(number, {ONE: {}}) == ({ONE: {A}}, set())
    assert sorted(answers.asked) == [(A, ONE), (B, ONE)]
    owned, _ = await answers.reported.owned([ONE], START + last)
    assert owned[ONE][A] is False
    assert await answers.look((last + REMEMBERED_MS) / EVERY_MS, {ONE: {}}) == ({ONE: set()}, set())
    assert {bundle for bundle, _ in answers.asked} == {B}


@pytest.mark.parametrize("fails", [ONE, TWO])
async def test_who_does_not_answer_is_silent_and_changes_nothing_that_is_known(fails: str) -> None:
    answers = Answers(most=MOST)
    both: dict[str, Loads | None] = {ONE: {A: 1.0}, TWO: {A: 1.0}}
    answers.owners[A] = Whose(TWO)
    await answers.look(0, both)
    answers.owners[A], answers.fails = Whose(ONE), {fails}
    owned, silent = await answers.look(1, both)
    assert silent == {fails}
    assert fails not in owned
    assert owned.get(TWO, {A}) == {A}
    assert owned.get(ONE, set()) == set()
