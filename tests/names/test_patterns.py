"""Clients' regular expressions: matched in time that grows with the text, and with nothing else."""

import pytest

from counterpoise.names.errors import InvalidName
from counterpoise.names.patterns import compile_pattern, matches_any


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*a){20}b"])
def test_no_pattern_and_no_text_take_long(pattern: str) -> None:
    """An engine that goes back and tries again takes years for each of these."""
    assert compile_pattern(pattern).fullmatch("a" * 5000) is None
    assert not matches_any([pattern], "a" * 5000)


@pytest.mark.parametrize(("text", "matches"), [("ab", True), ("abc", False), ("xab", False)])
def test_the_whole_text_has_to_match_one_of_them(text: str, matches: bool) -> None:
    assert matches_any(["z", "ab?"], text) is matches


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)a", "(?<!b)a", "(a{1000}){1000}", "("])
def test_what_cannot_be_matched_so_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidName, match="not a regular expression"):
        compile_pattern(pattern)
    assert not matches_any([pattern], "aa")
