"""Which moves go first, so that a broker's first topics of a namespace keep few clients waiting.

A broker that owns nothing of a namespace has to read that namespace's policies before it serves the
first topic, in Apache Pulsar from a system topic; if it was also just started, most of its code is
not compiled yet. Whatever moves to it meanwhile waits as long: about three seconds were measured on
Pulsar 4.0.7, where the next bundles took 0.3 s.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from counterpoise.decide.balancing.moves import Move
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of


def first_moves(moves: Sequence[Move], owned: Mapping[str, Sequence[str]]) -> tuple[Move, ...]:
    """The moves to make first: one for each broker and namespace of which it owns nothing yet.

    `owned` has the bundles of each broker before the moves. Of the bundles of a namespace that go
    to the same broker, the one with the least load goes first, since it disturbs the fewest
    clients. A bundle without load does so only if no other goes there: the broker has to load a
    topic to be warm. Moves without a destination are never among them.
    """
    lightest: dict[tuple[str, str], Move] = {}
    known = _known(owned)
    for move in sorted(moves, key=lambda each: (not each.part > 0, each.part, each.bundle)):
        pair = (move.destination, namespace_of(move.bundle))
        if move.destination and pair not in known:
            lightest.setdefault(pair, move)
    return tuple(
        move
        for move in moves
        if lightest.get((move.destination, namespace_of(move.bundle))) is move
    )


def warming(
    leaving: Sequence[str],
    view: ClusterView,
    owned: Mapping[str, Sequence[str]],
    brokers: Collection[str],
) -> dict[str, frozenset[str]]:
    """The bundles that should leave first, each with the brokers that own none of its namespace.

    For each namespace of which one of `brokers` owns nothing, that is the lightest bundle with load
    among those in `leaving`. A namespace of which only one bundle with load leaves has none, since
    nothing would be gained.
    """
    known = _known(owned)
    loaded: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for bundle in leaving:
        if (carried := view.carried(bundle)) > 0:
            loaded[namespace_of(bundle)].append((carried, bundle))
    found = {}
    for namespace, has in loaded.items():
        new = frozenset(each for each in brokers if (each, namespace) not in known)
        if new and len(has) > 1:
            found[min(has)[1]] = new
    return found


def _known(owned: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    """The pairs of a broker and a namespace of which the broker owns bundles."""
    return {(broker, namespace_of(each)) for broker, has in owned.items() for each in has}
