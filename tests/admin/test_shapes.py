import pytest

from counterpoise.admin.parameters import TEXT_MAX, check_text, whole_number
from counterpoise.admin.shapes import (
    ANYTHING,
    DEPTH_MAX,
    FLAG,
    NUMBER,
    InvalidBody,
    Shape,
    defaulting,
    nullable,
    object_of,
    read_json,
    text,
    whole,
)
from counterpoise.names.errors import InvalidName


@pytest.mark.parametrize("data", [b"Apart", b'"Apart"', b" Apart\n"])
def test_where_a_text_is_wanted_a_bare_word_will_do(data: bytes) -> None:
    assert Shape(nullable(text())).read(data) == "Apart"


@pytest.mark.parametrize("data", [b"{", b"two words", b"\xff", b'"open', b"a/b"])
def test_what_is_no_word_is_no_text(data: bytes) -> None:
    with pytest.raises(InvalidBody):
        Shape(text()).read(data)


def test_a_bare_word_is_nothing_else_than_a_text() -> None:
    with pytest.raises(InvalidBody, match="not JSON"):
        Shape(NUMBER).read(b"Apart")
    with pytest.raises(InvalidBody):
        Shape(text("Full", "None")).read(b"Half")
    assert Shape(text("Full", "None")).read(b"Full") == "Full"


@pytest.mark.parametrize("name", ["x" * TEXT_MAX, "é" * (TEXT_MAX // 2), " "])
def test_a_name_has_a_kilobyte_at_most_in_utf_8(name: str) -> None:
    check_text(name)
    for wrong in (f"{name}{'x' * TEXT_MAX}", f"{name[1:]}\0", "", "\udc80"):
        with pytest.raises(InvalidName):
            check_text(wrong)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0])
def test_a_whole_number_is_one_of_javas_64_bits(number: int) -> None:
    assert whole_number(str(number)) == number
    for wrong in (str(2**63), str(-(2**63) - 1), "", "1.0", "1e3", " 1", "٣"):
        with pytest.raises(InvalidName):
            whole_number(wrong)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "the body is not text in UTF-8"),
        (b"[NaN]", "the body is not JSON: NaN is no JSON number"),
        (b"{]", "the body is not JSON"),
        (b"1" * 5000, "the body is not JSON"),
        (b"[" * 100_000, f"the body is nested deeper than {DEPTH_MAX} levels"),
        (b"[" * DEPTH_MAX + b"1" + b"]" * DEPTH_MAX, f"nested deeper than {DEPTH_MAX} levels"),
        (b'["\\ud800"]', "half of a surrogate pair"),
        (b'{"\\udc00": 1}', "half of a surrogate pair"),
    ],
    ids=lambda it: it[:12],
)
def test_what_is_no_json_says_why(data: bytes, why: str) -> None:
    with pytest.raises(InvalidBody, match=why):
        read_json(data)


def test_what_json_may_be() -> None:
    deep = b"[" * (DEPTH_MAX - 1)
    assert read_json(deep + b"1" + b"]" * (DEPTH_MAX - 1)) is not None
    assert [read_json(each) for each in (b"", b" \n", b"\xef\xbb\xbf1", b"null")] == [
        None,
        None,
        1,
        None,
    ]


def test_members_that_are_not_needed_may_be_null_or_missing() -> None:
    shape = Shape(object_of({"a": text("x", "y"), "b": FLAG, "c": ANYTHING}, required=("b",)))
    for right in ({"b": True}, {"a": None, "b": False}, {"a": "y", "b": True, "c": [1], "d": 2}):
        assert shape.check(right) == right
    for wrong, member in (({"b": None}, "b"), ({}, "b"), ({"a": "z", "b": True}, "a")):
        with pytest.raises(InvalidBody, match=member):
            shape.check(wrong)
    assert nullable(nullable(FLAG)) == nullable(FLAG) == {"type": ["boolean", "null"]}


def test_null_is_zero_or_false_for_a_member_that_has_a_default_value() -> None:
    policy = object_of({"rate": defaulting(whole(), -1), "on": defaulting(FLAG, True)})
    both = Shape(object_of({"policy": policy, "name": text()}))
    assert both.read(b'{"policy": {"rate": null, "on": null}, "name": null}') == {
        "policy": {"rate": 0, "on": False},
        "name": None,
    }
    assert both.read(b'{"policy": {}}') == {"policy": {"rate": -1, "on": True}}


def test_a_whole_number_of_a_body_fits_javas_int() -> None:
    for bound, beyond in ((2**31 - 1, 1), (-(2**31), -1)):
        assert Shape(whole()).check(bound) == bound
        with pytest.raises(InvalidBody):
            Shape(whole()).check(bound + beyond)
