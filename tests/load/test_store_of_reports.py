"""Load stores that are made of reports: averages from poll to poll, and the busiest bundles."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.rates import Rates
from counterpoise.load.store_of_reports import HISTORY, Ema, UnreportedFacts, averaged, store_view
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.topk import as_published
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

NOW = 1_700_000_000_000
WEIGHTS = np.array([1.0, np.nan, 0.0, 1.0, 1.0])


def view(
    bundles: Mapping[str, float], cpu: float = 50.0, through: float = 100.0, **more: Any
) -> ClusterView:
    """One broker that uses so much of its processor and carries these bytes/s in."""
    usage = np.zeros((1, 5), np.float32)
    usage[:, 0] = cpu
    zeros, none = np.zeros(1), np.zeros(len(bundles))
    carried = Rates(none, none, np.array([*bundles.values()], float), none)
    return ClusterView.from_columns(
        now_ms=more.pop("now_ms", NOW),
        brokers=["b:1"],
        broker=BrokerColumns.of(
            usage, Rates(zeros, zeros, np.array([through]), zeros), [len(bundles)], **more
        ),
        bundles=[*bundles],
        bundle=BundleColumns.of([*bundles], carried, carried),
        reported=(np.zeros(len(bundles), np.intp), np.arange(len(bundles))),
    )


@pytest.mark.parametrize(("elapsed_ms", "kept"), [(5000, HISTORY), (10_000, HISTORY**2)])
def test_an_average_keeps_nine_tenths_of_itself_every_five_seconds(
    elapsed_ms: int, kept: float
) -> None:
    before = averaged(view({}), WEIGHTS, {})
    assert before == {"b:1": Ema(0.5, 100.0, NOW)}
    later = view({}, cpu=90.0, through=300.0, now_ms=NOW + elapsed_ms)
    found = averaged(later, WEIGHTS, before)["b:1"]
    assert found.load == pytest.approx(0.5 * kept + 0.9 * (1 - kept))
    assert found.throughput == pytest.approx(100.0 * kept + 300.0 * (1 - kept))
    assert found.at_ms == NOW + elapsed_ms
    assert averaged(view({}, cpu=9.0), WEIGHTS, before) == before, "the same moment counts once"


def test_the_average_that_a_broker_publishes_itself_counts() -> None:
    seen = view({}, load_average=np.array([0.25]))
    assert averaged(seen, WEIGHTS, {})["b:1"] == Ema(0.25, 100.0, NOW)


def stored(seen: ClusterView, most: int = 2, **known: Any) -> LoadStoreView:
    return store_view(
        seen,
        {"b:1": Ema(0.5, 100.0, NOW)},
        UnreportedFacts({"b:1": 7}, known.pop("answering", ["b:1"])),
        most,
    )


def test_the_busiest_bundles_are_listed_the_busiest_last() -> None:
    """Bytes/s count in steps of 100 kB, then as they are; what is idle or Pulsar's own is not."""
    loads = {
        "t/n/0x0": 3e6,
        "t/n/0x1": 0.0,
        "t/n/0x2": 1e6 + 2,
        "t/n/0x3": 1e6 + 1,
        "pulsar/system/0x0": 9e6,
    }
    found = stored(view(loads))
    assert found.top == ((("t/n/0x2", 1e6 + 2), ("t/n/0x0", 3e6)),)
    assert stored(view(loads), most=0).top == ((),)
    assert found.rules.owners == dict.fromkeys(["t/n/0x0", "t/n/0x2", "t/n/0x3"], "b:1")
    assert found.unloaded_brokers == {"b:1": 7}


@pytest.mark.parametrize(("answering", "at_ms"), [(["b:1"], NOW - 3), ([], 0)])
def test_a_broker_that_does_not_answer_has_old_load_data(answering: list[str], at_ms: int) -> None:
    seen = view({}, measured_ms=np.array([NOW - 3]))
    assert stored(seen, answering=answering).updated_at.tolist() == [at_ms]


def test_bundles_that_rank_alike_are_published_by_their_slots_in_javas_table() -> None:
    """Of 16 slots "p" is in the first and "a" in the second; a table of 32 has "p" in slot 16."""
    alike = {"a": (1.0,), "p": (1.0,)}
    assert as_published(alike, 1, 11) == ["p"]
    assert as_published(alike, 1, 12) == ["a"]


ranked = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3), st.tuples(st.integers(0, 4), st.integers(0, 2))
)


@given(ranked, st.integers(-1, 12), st.integers(0, 60))
def test_whatever_the_slots_the_busiest_are_published_and_the_busiest_last(
    ranks: Mapping[str, tuple[int, int]], most: int, more: int
) -> None:
    found = as_published(ranks, most, len(ranks) + more)
    busiest = sorted(ranks.values(), reverse=True)[: max(0, most)]
    assert [ranks[name] for name in found] == busiest[::-1]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("most", [0, 1, 3, 4])
def test_a_leader_lists_as_brokers_publish_and_counts_all_that_it_reads(most: int) -> None:
    loads = {f"t/n/0x{n}": 1e6 * (n + 1) for n in (2, 0, 3, 1)} | {"t/n/0x9": 0.0}
    seen, known = view(loads), UnreportedFacts({}, ["b:1"], as_leader=True)
    found = store_view(seen, {"b:1": Ema(0.5, 100.0, NOW)}, known, most)
    assert found.top == ((*((f"t/n/0x{n}", 1e6 * (n + 1)) for n in range(4)),)[4 - most :],)
