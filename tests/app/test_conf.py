"""What a person types: settings, addresses, times, numbers and rules, at their limits."""

import argparse
import os
import time
from pathlib import Path

import pytest

from counterpoise.app import numbers
from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.arguments.rules import left_alone, part, window
from counterpoise.app.client import client_security
from counterpoise.app.conf import given_conf, read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.main import full_parser
from counterpoise.app.times import moment_ms, moment_or_ago_ms, seconds, some_time, span_ms
from counterpoise.app.wiring import config_of, shedding_by_others, shedding_every
from counterpoise.names.options import ConfigError

FLOOR = "minUnloadMessage"


def test_a_setting_wins_over_the_file_and_the_last_over_the_first(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{FLOOR}=1\nmaxUnloadPercentage=0.5\n", encoding="utf-8")
    conf = read_conf(str(file), [f"{FLOOR}=2", f"{FLOOR} = 3 "])
    assert conf.values == {FLOOR: "3", "maxUnloadPercentage": "0.5"}


def test_a_value_may_hold_an_equals_sign_and_a_file_a_mark_at_its_start(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_bytes(b"\xef\xbb\xbfminUnloadMessage=7\n")
    conf = given_conf(str(file), ["advertisedListeners=a=b,c=d"])
    assert conf.values == {FLOOR: "7", "advertisedListeners": "a=b,c=d"}


@pytest.mark.parametrize(
    ("words", "token"),
    [
        ((), "old"),
        (("--auth-params", "token:new"), "new"),
        (("--auth-plugin", "token", "--auth-params", "token:new"), "new"),
    ],
)
def test_credentials_that_are_given_win_over_those_of_the_file(
    words: tuple[str, ...], token: str, tmp_path: Path
) -> None:
    """The parameters alone go with the plugin of the file."""
    file, name = tmp_path / "broker.conf", "brokerClientAuthentication"
    file.write_text(f"{name}Plugin=token\n{name}Parameters=token:old\n", encoding="utf-8")
    typed = ["advise", "--admin-url", "http://b1:80", "--conf", str(file), *words]
    security = client_security(full_parser().parse_args(typed))
    assert security.headers() == {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("text", ["minUnloadMessage", "=5", " =5"])
def test_a_setting_has_a_name_and_a_value(text: str) -> None:
    with pytest.raises(UserError, match="expected NAME=VALUE"):
        given_conf(None, [text])


def test_a_misspelled_setting_is_refused_and_one_of_a_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean minUnloadMessage"):
        read_conf(None, ["minUnloadMesage=5"])
    file = tmp_path / "broker.conf"
    file.write_text("anotherProgramsName=5\n", encoding="utf-8")
    assert read_conf(str(file), [f"{FLOOR}=5"]).values["anotherProgramsName"] == "5"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none\.conf: No such file"):
        read_conf(str(tmp_path / "none.conf"))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(UserError, match="not a text file in UTF-8"):
        read_conf(str(tmp_path / "image.png"))


def test_addresses_are_several_and_without_their_slashes() -> None:
    assert admin_urls(" http://a:1/ ,https://b:2,,") == ("http://a:1", "https://b:2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a:8080",
        "pulsar://a:6650",
        "http://",
        "http://a,b:1",
        "http://[::a:1",
        "http://a:x",
        "http://a:70000",
        "http://a:0",
    ],
)
def test_an_address_is_one_of_http(text: str) -> None:
    with pytest.raises(UserError, match="expected http://host:port"):
        admin_urls(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9090", ("127.0.0.1", 9090)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (None, None),
    ],
)
def test_where_metrics_are_served(text: str | None, address: tuple[str, int] | None) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "65536", "host:-1", "host:x"])
def test_a_port_is_a_port(text: str) -> None:
    with pytest.raises(UserError, match="expected PORT or HOST:PORT"):
        listen_address(text)


def test_a_time_without_a_zone_is_utc_wherever_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert moment_ms("1970-01-01T01:00", 5) == 3_600_000
        assert moment_ms("1970-01-01T01:00+01:00", 5) == 0
        assert moment_ms("", 5) == 5
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("-1s", 999_000),
        ("-2m", 880_000),
        ("-.1h", 640_000),
        ("-1d", 0),
        ("-1w", 0),
        ("", 1_000_000),
    ],
)
def test_a_time_ago_is_not_before_1970(text: str, ms: int) -> None:
    assert moment_or_ago_ms(text, 1_000_000) == ms


@pytest.mark.parametrize("text", ["-d", "-1", "-1y", "-1.2.3d", "--1d"])
def test_a_time_ago_has_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(UserError, match="is not a time ago such as -30d"):
        moment_or_ago_ms(text, 0)


def test_a_move_may_take_no_time_at_all() -> None:
    for given in (None, 0.0, 0.5):
        numbers.expect_move_seconds(given)
    for given in (-0.1, float("inf"), float("nan")):
        with pytest.raises(UserError, match="expected seconds, 0 or more"):
            numbers.expect_move_seconds(given)


@pytest.mark.parametrize("span", [("2026-11-22", "2026-11-22"), ("2026-11-23", "2026-11-22")])
def test_a_span_holds_something(span: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="expected an earlier time first"):
        span_ms(*span)
    assert span_ms("1970-01-01", "1970-01-01T00:00:00.001") == (0, 1)


@pytest.mark.parametrize(
    ("convert", "text", "value"),
    [
        (part, "100%", 1.0),
        (part, "0.5", 0.005),
        (window, "22:00-06:00", (1320, 360)),
        (window, "00:00-24:00", (0, 1440)),
        (numbers.count, "1", 1),
        (some_time, "1ms", 0.001),
        (seconds, "0", 0.0),
        (numbers.surplus, "+2", 2),
        (numbers.factor, "x1.5", 1.5),
        (numbers.factor, ".5", 0.5),
        (numbers.latency_factor, "0", 0.0),
        (numbers.latency_factor, "x1.01", 1.01),
        (numbers.named_factor, "a=b=0.5", ("a=b", 0.5)),
        (numbers.named_count, "a=32", ("a", 32)),
        (left_alone, "public/a, public/b/0x00000000_0x80000000",
         {"public/a", "public/b/0x00000000_0x80000000"}),
    ],
)  # fmt: skip
def test_values_at_their_limits(convert: object, text: str, value: object) -> None:
    assert convert(text) == value  # type: ignore[operator]


@pytest.mark.parametrize(
    ("convert", "text"),
    [
        *((part, each) for each in ("0%", "101%", "-1%", "nan", "x")),
        *((window, each) for each in ("22:00", "24:00-06:00", "06:00-06:00", "00:00-24:01", "a-b")),
        *((numbers.count, each) for each in ("0", "-1", "1.5", "")),
        *((some_time, each) for each in ("0", "-1s", "5d", "inf", "nan")),
        *((seconds, each) for each in ("-1", "inf", "nan")),
        *((numbers.surplus, each) for each in ("2", "12", "+0", "")),
        *((numbers.factor, each) for each in ("0", "inf", "nan", "x")),
        *((numbers.latency_factor, each) for each in ("x1", "0.5", "-1")),
        *((numbers.named_factor, each) for each in ("=0.5", "0.5", "a=0")),
        *((numbers.named_count, each) for each in ("=3", "a", "a=0")),
        *((left_alone, each) for each in ("public", "a/b/c", "")),
    ],
)
def test_values_beyond_their_limits_are_refused(convert: object, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        convert(text)  # type: ignore[operator]


def test_rounds_of_shedding_may_be_closer_than_pulsars_minutes() -> None:
    """In `Cluster(balance_every_s=…)` and `up --balance-every`."""
    assert shedding_every(config_of({}), 2.5).shedding.balance.decide_every_ms == 2_500


def test_beside_a_balancer_on_spark_brokers_shed_nothing() -> None:
    config = config_of({"loadBalancerSheddingEnabled": True})
    assert config.shedding.balance.shedding_enabled
    assert not shedding_by_others(config).shedding.balance.shedding_enabled
