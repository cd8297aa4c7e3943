import pytest

from counterpoise.admin.shapes import NUMBER, InvalidBody, Shape, nullable, text


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
