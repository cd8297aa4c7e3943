from dataclasses import dataclass

import pytest

from counterpoise.names.options import (
    INT64_MAX,
    ConfigError,
    all_options,
    check_ranges,
    from_conf,
    option,
    with_dynamic,
)


@dataclass(frozen=True, slots=True)
class Inner:
    share: float = option(0.5, conf="innerShare", low=0.0, high=1.0, why="a share")


_INNER = Inner()


@dataclass(frozen=True, slots=True)
class Outer:
    flag: bool = option(True, conf="aFlag", why="a switch")
    count: int = option(3, conf="aCount", low=0, why="a count")
    big: int = option(1, conf="aLong", high=INT64_MAX, why="a long")
    speed: float | None = option(None, conf="aSpeed", low=0.0, kind=float, why="maybe a number")
    names: tuple[str, ...] = option(("x",), conf="someNames", why="a list")
    mode: str = option("on", conf="aMode", choices=("on", "off"), why="a choice")
    inner: Inner = _INNER
    ours: int = 7


def test_defaults_stay_when_nothing_is_said():
    assert from_conf(Outer, {}) == Outer()
    assert from_conf(Outer, {"aCount": "  ", "unknown": "1"}) == Outer()


def test_what_an_option_takes_is_said():
    takes = {each.conf: each.range_text for each in all_options(Outer)}
    assert (takes["someNames"], takes["aMode"]) == ("a comma-separated list", "one of on, off")
    assert (takes["aFlag"], takes["innerShare"]) == ("true or false", "a number from 0 to 1.0")
    assert takes["aCount"] == "a whole number from 0 to 2147483647"
    assert takes["aSpeed"] == "a number, at least 0"


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("aCount", "0", True),
        ("aCount", "-1", False),
        ("aCount", "2147483647", True),
        ("aCount", "2147483648", False),
        ("aSpeed", "0", True),
        ("aSpeed", "-0.001", False),
        ("innerShare", "1.0", True),
        ("innerShare", "1.001", False),
    ],
)
def test_the_ends_of_a_range_are_taken_and_no_more(name, text, taken):
    if taken:
        from_conf(Outer, {name: text})
    else:
        with pytest.raises(ConfigError, match=f"line 7: {name}: "):
            from_conf(Outer, {name: text}, {name: 7})


@dataclass(frozen=True, slots=True)
class Deep:
    depth: int = option(1, conf="aDepth", dynamic=True)
    fixed: int = option(1, conf="aFixed")


_DEEP = Deep()


@dataclass(frozen=True, slots=True)
class Live:
    rate: int = option(1, conf="aRate", dynamic=True)
    port: int = option(1, conf="aPort")
    url: str | None = option("here", conf="aUrl", kind=str, blank_is_none=True)
    deep: Deep = _DEEP


def test_only_what_is_dynamic_changes_at_run_time_nested_or_not():
    every = {"aRate": "2", "aPort": "2", "aDepth": "2", "aFixed": "2", "unknown": "2"}
    assert with_dynamic(Live(), every) == Live(2, 1, "here", Deep(2, 1))
    assert with_dynamic(Live(5, 6), {"aDepth": "3"}) == Live(5, 6, "here", Deep(3, 1))


def test_a_blank_value_keeps_the_default_unless_it_means_none():
    assert from_conf(Live, {"aRate": " ", "aUrl": " "}) == Live(url=None)


def test_values_of_every_kind():
    read = from_conf(
        Outer,
        {
            "aFlag": "False",
            "aCount": " 2147483647 ",
            "aLong": str(INT64_MAX),
            "aSpeed": "1e3",
            "someNames": "a, b, ,,c",
            "aMode": "off",
            "innerShare": "1",
        },
    )
    assert read == Outer(False, 2147483647, INT64_MAX, 1000.0, ("a", "b", "c"), "off", Inner(1.0))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("aFlag", "yes", "true or false"),
        ("aCount", "-1", "from 0 to"),
        ("aCount", "1.5", "a whole number"),
        ("aCount", "2147483648", "2147483647"),
        ("aLong", "9223372036854775808", "9223372036854775807"),
        ("aSpeed", "fast", "a number, at least 0"),
        ("aSpeed", "-0.5", "at least 0"),
        ("aMode", "maybe", "one of on, off"),
        ("innerShare", "1.5", "from 0 to 1"),
        ("innerShare", "nan", "from 0 to 1"),
    ],
)
def test_what_is_no_good_is_named_with_its_line(name, value, expected):
    with pytest.raises(ConfigError) as failure:
        from_conf(Outer, {name: value}, {name: 42})
    assert str(failure.value).startswith(f"line 42: {name}: ")
    assert value in str(failure.value)
    assert expected in str(failure.value)


@dataclass(frozen=True, slots=True)
class Free:
    factor: float = option(1.0, conf="aFactor")


@pytest.mark.parametrize("text", ["nan", "NaN"])
def test_what_is_no_number_is_refused_where_every_number_is_allowed(text):
    assert from_conf(Free, {"aFactor": "-1e300"}) == Free(-1e300)
    with pytest.raises(ConfigError, match="aFactor: nan is not a number"):
        from_conf(Free, {"aFactor": text})


def test_settings_made_in_code_are_checked_too():
    check_ranges(Outer())
    with pytest.raises(ConfigError, match="innerShare"):
        check_ranges(Outer(inner=Inner(2.0)))


def test_all_settings_of_a_dataclass():
    assert [each.conf for each in all_options(Outer)] == [
        "aFlag",
        "aCount",
        "aLong",
        "aSpeed",
        "someNames",
        "aMode",
        "innerShare",
    ]
