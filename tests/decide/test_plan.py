"""Plans whose decisions are written out when they are read."""

from collections.abc import Sequence

import pytest

from counterpoise.decide.plan import Decision, Decisions, Kind, Move, Plan

MOVES: list[Move] = [("b1", "t/n/1", "b2"), ("b1", "t/n/2", "b2"), ("b3", "t/n/3", None)]


def why(move: Move) -> Decision:
    source, bundle, destination = move
    kind = Kind.UNLOAD if destination is None else Kind.TRANSFER
    return Decision(kind, bundle, source, destination, "Uneven", "{bundle} leaves {source}")


class Some:
    """A batch that counts how often it was asked why."""

    def __init__(self, *moves: Move) -> None:
        self.moves = moves
        self.asked = 0

    def decisions(self) -> list[Decision]:
        self.asked += 1
        return [why(move) for move in self.moves]


@pytest.fixture
def batches() -> list[Some]:
    return [Some(*MOVES[:2]), Some(), Some(*MOVES[2:])]


def test_what_moves_is_known_without_asking_why(batches: list[Some]) -> None:
    made = Decisions(batches)
    assert len(made) == 3
    assert made
    assert list(made.moves()) == MOVES
    assert [batch.asked for batch in batches] == [0, 0, 0]
    assert not Decisions([])
    assert not Decisions([Some()])


def test_every_batch_is_asked_why_once(batches: list[Some]) -> None:
    made = Decisions(batches)
    assert list(made) == list(made) == [why(move) for move in MOVES]
    assert made[-1].sentence == "t/n/3 leaves b3"
    assert [batch.asked for batch in batches] == [1, 1, 1]


def test_they_are_a_sequence_like_any_other(batches: list[Some]) -> None:
    made, plain = Decisions(batches), tuple(why(move) for move in MOVES)
    assert isinstance(made, Sequence)
    assert made[1] == plain[1]
    assert made[1:] == plain[1:]
    assert [*reversed(made)] == [*reversed(plain)]
    assert plain[2] in made
    assert made.index(plain[2]) == 2
    with pytest.raises(IndexError):
        made[3]
    assert made == plain
    assert plain == made
    assert made == Decisions([Some(*MOVES)])
    assert made != plain[:2]
    assert made != 3
    assert hash(Decisions([])) == hash(())
    assert repr(made) == f"Decisions({[*plain]!r})"


def test_a_plan_of_them_is_the_plan_of_their_decisions(batches: list[Some]) -> None:
    lazy = Plan(Decisions(batches), (), None)
    plain = Plan(tuple(why(move) for move in MOVES), (), None)
    assert lazy == plain
    assert lazy.to_json() == plain.to_json()
