"""Which moves go first: one for each broker and namespace that are new to each other."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.warm_up import first_moves, warming
from counterpoise.decide.plan import Decision, DecisionKind
from tests.decide.balancing.clusters import bundles, snapshot

BROKERS = ("b1", "b2", "")
NAMESPACES = ("a/x", "a/y")


def bundle(namespace: str, number: int) -> str:
    return f"{namespace}/0x{number << 24:08x}_0x{(number + 1) << 24:08x}"


@st.composite
def moves(draw: st.DrawFn) -> list[Move]:
    made = []
    for number in range(draw(st.integers(0, 12))):
        name = bundle(draw(st.sampled_from(NAMESPACES)), number)
        destination = draw(st.sampled_from(BROKERS)) or None
        decision = Decision(DecisionKind.TRANSFER, name, "b0", destination, "", "")
        part = draw(st.sampled_from((0.0, 0.1, 0.2, 0.3)))
        made.append(Move(move_id(number, name), number, decision, "", part))
    return made


@given(moves(), st.sets(st.tuples(st.sampled_from(BROKERS[:2]), st.sampled_from(NAMESPACES))))
def test_one_goes_first_to_each_broker_that_is_new_to_its_namespace(
    all_of_them: list[Move], known: set[tuple[str, str]]
) -> None:
    owned: dict[str, list[str]] = {"b0": [move.bundle for move in all_of_them]}
    for broker, namespace in sorted(known):
        owned.setdefault(broker, []).append(bundle(namespace, 0xF0))
    first = first_moves(all_of_them, owned)
    for broker in BROKERS:
        for namespace in NAMESPACES:
            going = [
                move
                for move in all_of_them
                if move.destination == broker and move.bundle.startswith(namespace)
            ]
            chosen = [move for move in going if move in first]
            assert len(chosen) == int(bool(going and broker and (broker, namespace) not in known))
            loaded = [move.part for move in going if move.part]
            assert [move.part for move in chosen] == [min(loaded, default=0.0)][: len(chosen)]


def test_a_broker_begins_with_the_lightest_loaded_bundle_where_heavier_ones_leave_too() -> None:
    leaving = [*bundles("x", 5.0, 3.0, 0.0), *bundles("y", 4.0, 0.0, namespace="t/m")]
    served = snapshot({"b0": leaving, "b1": bundles("z", 1.0), "b2": [], "b3": []})
    names = [name for name, _ in leaving]
    found = warming(names, served.view, served.owned, ["b1", "b2", "b3"])
    assert found == {"t/n/x1": frozenset(["b2", "b3"])}
