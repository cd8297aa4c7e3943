import pytest

from counterpoise.admin.parameters import TEXT_MAX, check_text, whole_number
from counterpoise.admin.shapes import NUMBER, InvalidBody, Shape, nullable, text
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
