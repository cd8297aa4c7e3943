"""Our `dataclass` against Python's own: the same class body, defined by each."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.dataclass import dataclass

NOT_A_NUMBER = float("nan")
VALUES = st.tuples(
    st.integers(0, 2) | st.just(NOT_A_NUMBER),
    st.text("ab", max_size=1) | st.lists(st.integers(0, 1), max_size=1),
    st.integers(0, 1),
)


@dataclass(frozen=True, slots=True)
class Ours:
    """Fields of each kind."""

    number: float
    text: object = "x"
    note: int = field(default=0, compare=False)
    secret: str = field(default="s", repr=False)
    listeners: dict[str, int] = field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The same, by Python's own."""

    number: float
    text: object = "x"
    note: int = field(default=0, compare=False)
    secret: str = field(default="s", repr=False)
    listeners: dict[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Single:
    """One field."""

    number: int


@dataclass(frozen=True, slots=True)
class Empty:
    """No field."""


@dataclass(frozen=True, slots=True)
class Own:
    """Methods that the class defines itself."""

    number: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


def result_of_hash(value: object) -> object:
    """Its hash, or why it has none."""
    try:
        return hash(value)
    except TypeError as error:
        return str(error)


@given(VALUES, VALUES)
def test_values_compare_and_read_as_those_of_the_standard_one(
    one: tuple[float, object, int], other: tuple[float, object, int]
) -> None:
    a, b, x, y = Ours(*one), Ours(*other), Standard(*one), Standard(*other)
    assert (a == b) == (x == y)
    assert repr(a) == repr(x).replace("Standard", "Ours")
    assert isinstance(result_of_hash(a), str) == isinstance(result_of_hash(x), str)
    if a == b:
        assert result_of_hash(a) == result_of_hash(b)
    assert a != x


def test_classes_with_the_same_values_differ() -> None:
    assert Single(1) == Single(1) != Single(2)
    assert Empty() == Empty() != Single(1) != 1
    assert len({Single(1), Single(1), Single(2), Empty(), Empty()}) == 3
    assert repr((Single(1), Empty())) == "(Single(number=1), Empty())"


def test_values_are_frozen_copied_replaced_and_matched() -> None:
    value = Ours(1.5, "a", 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.note = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == value
    assert dataclasses.replace(value, text="b") == Ours(1.5, "b")
    match value:
        case Ours(number, text):
            assert (number, text) == (1.5, "a")


def test_methods_of_the_class_stay() -> None:
    assert Own(1) == Own(2)
    assert (hash(Own(1)), repr(Own(1))) == (7, "own")
