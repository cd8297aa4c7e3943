"""What a watchdog says, and of what it keeps silent: a table of planted situations."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.watchdog.judge import KINDS, SLOW_BROKER, by_cause, judge, remember
from counterpoise.decide.watchdog.observation import (
    ChannelRecord,
    ClusterObservation,
    WatchdogFinding,
    WatchdogMemory,
    WatchdogOptions,
)

START = 1_700_000_000_000
A, B, C = (f"public/default/0x{n:08x}_0x{n + 1:08x}" for n in range(3))
WELL = ClusterObservation(
    START,
    ("b1:80", "b2:80"),
    owned={"b1:80": {A: True}, "b2:80": {B: True}},
    carried={A: 100.0, B: 200.0},
    leaders={"b1:80": "b1:80", "b2:80": "b1:80"},
)


def seen(*observations: ClusterObservation, every_ms: int = 10_000) -> tuple[WatchdogFinding, ...]:
    """What is said after these looks, ten seconds apart."""
    memory, found = WatchdogMemory(), tuple[WatchdogFinding, ...]()
    for number, observed in enumerate(observations):
        found, memory = judge(
            replace(observed, now_ms=START + number * every_ms), memory, WatchdogOptions()
        )
    return found


def lasting(observed: ClusterObservation, times: int = 4) -> Sequence[WatchdogFinding]:
    """What is said of a well cluster that then looks like this for half a minute."""
    return seen(WELL, *[observed] * times)


def test_a_cluster_that_is_well_is_not_spoken_of() -> None:
    assert not lasting(WELL, 200)


TWO = replace(WELL, owned={"b1:80": {A: True}, "b2:80": {B: True, A: True}})
UNOWNED = replace(WELL, owned={"b1:80": {}, "b2:80": {B: True}}, carried={B: 200.0})
SILENT = replace(
    WELL,
    owned={"b2:80": {B: True}},
    silent={"b1:80": "no answer within 10 s"},
    leaders={"b2:80": "b2:80"},
)
INACTIVE = replace(WELL, owned={"b1:80": {A: False}, "b2:80": {B: True}})
NO_LEADER = replace(WELL, leaders={"b1:80": "", "b2:80": ""})
LEFT = replace(WELL, leaders={"b1:80": "b9:80", "b2:80": "b9:80"})
TORN = replace(WELL, leaders={"b1:80": "b1:80", "b2:80": "b2:80"})
ASSIGNING = replace(WELL, records={C: ChannelRecord("Assigning", "b2:80", START - 60_000)})
GHOST = replace(WELL, records={C: ChannelRecord("Owned", "b9:80", START)})
FORGOTTEN = replace(WELL, records={C: ChannelRecord("Owned", "b2:80", START)})


@pytest.mark.parametrize(
    ("observed", "kind", "subject", "said", "remedy"),
    [
        (TWO, "two-owners", A, "b1:80 and b2:80 at once", ""),
        (UNOWNED, "no-owner", A, f"no broker owns {A}, which carried 100 B/s", "lookup"),
        (SILENT, "not-serving", "b1:80", "no answer within 10 s", ""),
        (INACTIVE, "in-flight", A, "neither serves it nor releases", "unload"),
        (NO_LEADER, "no-leader", "cluster", "no broker leads", ""),
        (LEFT, "no-leader", "b9:80", "no broker of the cluster any more", ""),
        (TORN, "several-leaders", "cluster", "b1:80 says b1:80, b2:80 says b2:80", ""),
        (ASSIGNING, "in-flight", C, "is Assigning (b2:80)", "lookup"),
        (GHOST, "not-serving", C, "recorded to be b9:80's, and b9:80 is no broker", "unload"),
        (FORGOTTEN, "not-serving", C, "and b2:80 does not have it", "unload"),
    ],
)
def test_what_lasts_is_said_with_what_helps(
    observed: ClusterObservation, kind: str, subject: str, said: str, remedy: str
) -> None:
    [found] = lasting(observed)
    assert (found.kind, found.subject, found.remedy) == (kind, subject, remedy)
    assert said in found.sentence
    assert kind in KINDS
    assert found.remedy or found.advice, "it says what helps"
    assert found.broker in ("", *observed.owned), "only a broker that answers can be asked for it"


def test_an_alert_says_since_when_not_when_it_was_last_seen() -> None:
    """Looks come every ten seconds, the first that shows it is the second of all."""
    before = seen(WELL, TWO, TWO, TWO, TWO)
    [found] = before
    [later] = seen(WELL, TWO, TWO, TWO, TWO, TWO, TWO)
    assert found.since_ms == later.since_ms == START + 10_000
    assert found.sentence.endswith(", for 30 s")
    assert later.sentence.endswith(", for 50 s")


@pytest.mark.parametrize("observed", [TWO, UNOWNED, SILENT, INACTIVE, NO_LEADER, TORN, FORGOTTEN])
def test_what_passes_is_not_said(observed: ClusterObservation) -> None:
    assert not seen(WELL, observed, observed, observed)
    assert not seen(WELL, observed, observed, observed, WELL, observed, observed, observed), (
        "it begins again"
    )


def test_a_record_says_itself_how_long_it_has_been_in_flight() -> None:
    assert [each.kind for each in seen(ASSIGNING)] == ["in-flight"]
    young = replace(WELL, records={C: ChannelRecord("Assigning", "b2:80", START - 5_000)})
    assert not seen(young)


def test_a_bundle_that_changes_its_state_all_the_time_is_not_stuck() -> None:
    states = ("Releasing", "Assigning")
    observations = [
        replace(WELL, records={C: ChannelRecord(states[n % 2], "b2:80", START + n * 10_000)})
        for n in range(10)
    ]
    assert not seen(*observations)


def test_a_leader_that_does_not_shed_is_said_only_after_a_long_time_without_a_move() -> None:
    uneven = replace(WELL, sheds=True, imbalance=0.9)
    minutes = [uneven] * 14
    assert not seen(*minutes, every_ms=60_000)
    [found] = seen(*minutes, uneven, uneven, every_ms=60_000)
    assert (found.kind, found.subject) == ("leader-does-not-shed", "b1:80")
    moved = replace(uneven, owned={"b1:80": {}, "b2:80": {A: True, B: True}})
    assert not seen(*minutes, moved, moved, every_ms=60_000), "something moved"
    assert not seen(*[replace(uneven, sheds=False)] * 30, every_ms=60_000), "it is not to"
    assert not seen(*[replace(uneven, imbalance=0.4)] * 30, every_ms=60_000), "it is even enough"
    limit = WatchdogOptions().uneven_above
    assert not seen(*[replace(uneven, imbalance=limit)] * 30, every_ms=60_000)
    alone = replace(
        uneven, brokers=("b1:80",), owned={"b1:80": {A: True}}, carried={A: 9.0},
        leaders={"b1:80": "b1:80"},
    )  # fmt: skip
    assert not seen(*[alone] * 30, every_ms=60_000)
    split = replace(uneven, owned={**WELL.owned, "b2:80": {B: True, C: True}})
    assert seen(*minutes, split, split, every_ms=60_000), "a bundle that is new has not moved"


@pytest.mark.parametrize(("late_ms", "missed"), [(0, True), (1, False)])
def test_a_bundle_is_missed_as_long_as_it_has_not_been_idle_for_the_time_that_is_set(
    late_ms: int, missed: bool
) -> None:
    options = WatchdogOptions()
    carried = remember(WELL, WatchdogMemory(), options)
    later = replace(UNOWNED, now_ms=START + options.idle_after_ms + late_ms)
    assert (A in remember(later, carried, options).carried_at_ms) is missed


def test_a_bundle_that_was_split_is_owned_by_its_parts() -> None:
    whole, left, right = (
        f"public/default/0x{low:08x}_0x{high:08x}" for low, high in ((0, 8), (0, 4), (4, 8))
    )
    before = replace(WELL, owned={"b1:80": {whole: True}}, carried={whole: 9.0})
    after = replace(WELL, owned={"b1:80": {left: True}, "b2:80": {right: True}}, carried={})
    assert not seen(before, *[after] * 5)
    lost = replace(after, owned={"b1:80": {"public/other/0x00000000_0x00000004": True}})
    assert [each.subject for each in seen(before, *[lost] * 5)] == [whole]


def test_a_bundle_without_load_may_be_unowned() -> None:
    idle = replace(WELL, carried={A: 0.0, B: 0.0})
    assert not seen(idle, *[replace(idle, owned={"b1:80": {}, "b2:80": {}})] * 9)
    long_ago = [replace(WELL, owned={"b2:80": {B: True}, "b1:80": {}}, carried={})] * 70
    assert not seen(WELL, *long_ago), "it has carried nothing for ten minutes"


def test_while_a_broker_is_silent_no_bundle_counts_as_unowned() -> None:
    both = replace(SILENT, owned={"b2:80": {}}, carried={})
    assert {each.subject for each in lasting(both)} == {"b1:80"}


def test_a_silent_broker_is_said_even_when_what_it_owned_is_unknown() -> None:
    [found] = seen(*[replace(SILENT, carried={})] * 4)
    assert (found.kind, found.subject) == ("not-serving", "b1:80")
    assert "is listed and does not answer (no answer within 10 s)" in found.sentence


def test_what_a_gone_broker_leaves_is_one_finding_until_the_last_of_it_is_owned() -> None:
    bundles = {f"public/default/0x{n:08x}_0x{n + 1:08x}": True for n in range(12)}
    before = replace(
        WELL,
        owned={"b1:80": {}, "b9:80": bundles},
        carried=dict.fromkeys(bundles, 5.0),
        brokers=("b1:80", "b9:80"),
    )
    some = dict(list(bundles.items())[:11])
    after = replace(before, brokers=("b1:80",), owned={"b1:80": {}}, carried={})
    [found] = seen(before, *[after] * 5)
    assert found.bundles == tuple(bundles)
    assert "the same holds for 11 more bundles" in found.sentence
    [left] = seen(before, *[after] * 5, replace(after, owned={"b1:80": some}))
    assert (left.key, left.bundles) == (found.key, tuple(bundles.keys() - some.keys()))
    assert not seen(before, *[after] * 5, replace(after, owned={"b1:80": bundles}))


def test_a_deleted_namespace_is_not_missed() -> None:
    gone = replace(UNOWNED, owned={"b1:80": {}, "b2:80": {}}, deleted=frozenset({"public/default"}))
    assert not lasting(gone, 20)
    for recorded in (ASSIGNING, GHOST, FORGOTTEN):
        assert lasting(recorded)
        assert not lasting(replace(recorded, deleted=frozenset({"public/default"})))


def test_a_silent_leader_and_what_it_owns_are_one_finding() -> None:
    led = replace(
        SILENT, leaders={"b2:80": "b1:80"}, records={A: ChannelRecord("Owned", "b1:80", START)}
    )
    [found] = lasting(led)
    assert (found.kind, found.subject, found.bundles) == ("not-serving", "b1:80", (A,))
    assert "and it leads" in found.sentence


def test_a_broker_that_serves_no_lookups_is_said_to_need_a_restart() -> None:
    reason = "it answers, and serves no lookups"
    stopped = replace(SILENT, silent={"b1:80": reason}, without_lookups=frozenset({"b1:80"}))
    [found] = lasting(stopped)
    assert "answers, but serves no lookups: clients that connect to it hang" in found.sentence
    assert found.advice.startswith("restart it")


def test_a_broker_that_starts_is_no_alarm_until_that_has_taken_minutes() -> None:
    starting = replace(SILENT, silent={"b1:80": "no channel"}, starting=frozenset({"b1:80"}))
    assert not lasting(starting, 30)
    [found] = lasting(starting, 31)
    assert "refuses lookups: its bundle state channel" in found.sentence
    assert "hang" not in found.sentence
    assert found.advice == "restart it"


def test_heartbeats_are_unowned_when_their_broker_ends() -> None:
    own = "pulsar/b1:80/0x00000000_0xffffffff"
    before = replace(WELL, owned={"b1:80": {own: True}, "b2:80": {}}, carried={own: 5.0})
    assert not seen(before, *[replace(before, owned={"b2:80": {}}, carried={})] * 9)


def test_the_system_namespace_is_named_by_no_broker_under_the_extensible_manager() -> None:
    system = "pulsar/system/0x50000000_0x60000000"
    before = replace(
        WELL, carried={system: 548.0}, records={system: ChannelRecord("Owned", "b1:80", 1)}
    )
    assert not lasting(before)
    later = "zebra/default/0x00000000_0xffffffff"
    missed = replace(before, carried={**before.carried, later: 5.0})
    assert [each.subject for each in lasting(missed)] == [later]


@pytest.mark.parametrize("wrong", [ASSIGNING, GHOST, FORGOTTEN])
def test_what_the_channel_said_holds_until_it_can_be_read_again(wrong: ClusterObservation) -> None:
    """Whether it is over cannot be seen, and nothing begins that has not lasted."""
    unread = replace(WELL, records=None)
    before = seen(WELL, *[wrong] * 4)
    after = seen(WELL, *[wrong] * 4, *[unread] * 9)
    assert [each.key for each in after] == [each.key for each in before] != []
    assert seen(WELL, *[wrong] * 4, unread, WELL) == ()


@pytest.mark.parametrize("wrong", [INACTIVE, UNOWNED])
def test_what_brokers_said_is_over_though_the_channel_cannot_be_read(
    wrong: ClusterObservation,
) -> None:
    before = [WELL, *[wrong] * 4]
    assert seen(*before)
    assert seen(*before, *[replace(WELL, records=None)] * 2) == ()


def test_what_the_channel_said_for_a_moment_does_not_begin_while_it_cannot_be_read() -> None:
    assert seen(WELL, GHOST, *[replace(WELL, records=None)] * 9) == ()


def answering(*seconds: float) -> ClusterObservation:
    """A well cluster whose first brokers take so long to answer."""
    brokers = tuple(f"b{number}:80" for number in range(1, 6))
    times = {**dict.fromkeys(brokers, 0.01), **dict(zip(brokers, seconds, strict=False))}
    return replace(WELL, brokers=brokers, answered_s=times)


def test_a_broker_slowed_tenfold_is_named_at_the_third_look() -> None:
    usual, slowed = answering(0.03), answering(0.3)
    assert not seen(*[usual] * 10, slowed, slowed)
    [found] = seen(*[usual] * 10, slowed, slowed, slowed)
    assert (found.kind, found.subject, found.remedy) == (SLOW_BROKER, "b1:80", "")
    said = "b1:80 takes 300 ms to answer and the other brokers 10 ms, slow at 3 looks in a row"
    assert found.sentence == f"{said}, for 0 s"
    [found] = seen(*[usual] * 10, slowed, slowed, slowed, usual, usual)
    assert found.sentence == f"{said.replace('300', '30')}, but not at the last 2, for 20 s"
    assert not seen(slowed, slowed, usual, slowed, slowed), "it begins again"


@given(st.lists(st.booleans(), max_size=30))
def test_a_broker_that_is_found_slow_stays_so_until_three_looks_in_a_row_are_well(
    slow: list[bool],
) -> None:
    """A process that gets a tenth of its processor answers one look of ten in time."""
    found = False
    for end in range(3, len(slow) + 1):
        found = all(slow[end - 3 : end]) or (found and any(slow[end - 3 : end]))
    looks = [answering(0.3 if each else 0.03) for each in slow]
    assert bool(looks and seen(*looks)) is found


@pytest.mark.parametrize(("first", "second", "slow"), [(0.05, 0.01, True), (0.049, 0.0098, False)])
def test_of_two_brokers_one_is_slow_that_takes_five_times_as_long_and_long_enough(
    first: float, second: float, slow: bool
) -> None:
    looks = [replace(WELL, answered_s={"b1:80": first, "b2:80": second})] * 3
    assert [each.subject for each in seen(*looks)] == ["b1:80"] * slow


def finding(subject: str, since_ms: int) -> WatchdogFinding:
    return WatchdogFinding("not-serving", subject, since_ms, f"{subject} is lost", cause="m:1")


def test_findings_of_one_cause_are_one_since_the_first_and_begin_with_the_broker() -> None:
    [merged] = by_cause([finding("a/n/0x0_0x1", 7), finding("m:1", 9), finding("z/n/0x0_0x1", 5)])
    assert (merged.subject, merged.since_ms) == ("m:1", 5)
    assert merged.sentence == "m:1 is lost; the same holds for 2 more bundles"
    assert merged.bundles == ("a/n/0x0_0x1", "z/n/0x0_0x1")
    [two] = by_cause([finding("a/n/0x0_0x1", 7), finding("m:1", 9)])
    assert two.sentence == "m:1 is lost; the same holds for one more bundle"
    [alone] = by_cause([finding("a/n/0x0_0x1", 7)])
    assert (alone.subject, alone.sentence) == ("a/n/0x0_0x1", "a/n/0x0_0x1 is lost")


@pytest.mark.parametrize(
    "observed",
    [
        answering(*[2.0] * 5),
        answering(0.04),
        answering(0.045, 0.04, 0.02),
        answering(0.6, 0.6, 0.6),
    ],
    ids=["all of them", "tenfold of nothing", "a few ms", "most of them"],
)
def test_who_is_not_far_slower_than_the_others_is_not_named(observed: ClusterObservation) -> None:
    assert not lasting(observed, 10)


def test_nothing_is_found_in_thirty_quiet_days() -> None:
    """Requests take 2 to 40 ms; one in a thousand falls into a pause of up to 2 s, half an hour a
    day this machine is slow, and then each of them may take a second more; brokers are restarted.
    """
    rng, memory, options = Random(1), WatchdogMemory(), WatchdogOptions()
    brokers = tuple(f"b{number}:80" for number in range(1, 11))
    every_ms, day = 15_000, 24 * 240
    for look in range(30 * day):
        slow_here = rng.random() if look % day < 120 else 0.0
        away = brokers[1 + look // 40 % 9] if look % day in range(2000, 2400) else ""
        times = {
            broker: min(0.04, 0.002 * rng.lognormvariate(0, 1))
            + (rng.uniform(0.05, 2.0) if rng.random() < 0.001 else 0.0)
            + slow_here * rng.uniform(0.5, 1.0)
            for broker in brokers
            if broker != away
        }
        observed = replace(
            WELL, brokers=tuple(times), now_ms=START + look * every_ms, answered_s=times,
            imbalance=rng.uniform(0.0, 0.4),
        )  # fmt: skip
        found, memory = judge(observed, memory, options)
        assert not found
