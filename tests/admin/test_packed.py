"""Text that is kept compressed until it is read."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.admin.packed import PIECE, Packed, PackedAnswer, answer_with

texts = st.lists(st.tuples(st.text(max_size=30), st.integers(1, 6000)), max_size=12)


@given(st.lists(texts, max_size=4))
def test_what_is_read_is_what_was_written(parts: list[list[tuple[str, int]]]) -> None:
    written = [Packed() for _ in parts]
    for packed, part in zip(written, parts, strict=True):
        for text, times in part:
            packed.write(text * times)
    whole = Packed.joined(written)
    wanted = "".join(text * times for part in parts for text, times in part).encode()
    for _ in range(2):
        pieces = list(whole.pieces())
        assert b"".join(pieces) == wanted
        assert whole.size == len(wanted)
    assert whole.held == sum(each.held for each in written)


def test_a_long_text_takes_little_and_is_read_by_the_piece() -> None:
    text = Packed()
    for number in range(200_000):
        text.write(f'series{{topic="persistent://public/default/topic-{number % 50}"}} 0.0\n')
    whole = Packed.joined([text])
    assert whole.size > 10_000_000
    assert 0 < whole.held < whole.size // 20
    assert max(map(len, whole.pieces())) <= PIECE


def test_a_short_text_is_an_ordinary_answer() -> None:
    text = Packed()
    text.write("short")
    answer = answer_with(Packed.joined([text]), "text/plain")
    assert not isinstance(answer, PackedAnswer)
    assert answer.body == b"short"  # type: ignore[attr-defined]


def test_the_last_bytes_are_read_where_they_do_not_fit_into_a_piece() -> None:
    # The last of the compressed bytes is taken before all that they stand for is given.
    for more in range(1, 300, 7):
        text = Packed()
        text.write("x" * (PIECE + more))
        assert sum(map(len, Packed.joined([text]).pieces())) == PIECE + more
