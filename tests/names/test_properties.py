import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t:\t1", {"a": "1"}),
        ("  a=1", {"a": "1"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("# a=1\n! b=2\n\n c=3", {"c": "3"}),
        ("a=1\\\n   2,\\\n3\nb=4", {"a": "12,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("a=\\u20ac\\t\\x", {"a": "€\tx"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_javas_rules(text, values):
    assert parse_properties(text).values == values


def test_lines_are_where_a_value_begins():
    read = parse_properties("# first\na=1\\\n  2\n\nb=3\na=4\n")
    assert read.lines == {"a": 6, "b": 5}
    assert read.repeated == {"a": (2, 6)}


def test_settings_on_top_stand_on_no_line():
    read = parse_properties("a=1\nb=2").overridden({"a": "9", "c": "3"})
    assert read.values == {"a": "9", "b": "2", "c": "3"}
    assert read.lines == {"b": 2}


plain = st.text("abcXYZ019._-,/ ", min_size=1, max_size=20).map(str.strip).filter(bool)


@given(st.dictionaries(plain.map(lambda name: name.replace(" ", "")), plain, max_size=8))
def test_plain_values_read_back(values):
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    assert parse_properties(text).values == values


@given(st.text(max_size=200))
def test_no_text_is_an_error(text):
    parse_properties(text)


texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)


@given(st.dictionaries(texts.filter(bool), texts))
def test_what_is_written_reads_back(values):
    assert dict(parse_properties(format_properties(values)).values) == values
