"""Figures for people, addresses, managers' names and system topics: tables of what is what."""

import pytest

from counterpoise.names.errors import InvalidName
from counterpoise.names.hosts import is_loopback
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR, is_extensible
from counterpoise.names.system_topics import is_system_topic
from counterpoise.names.topic import TopicName
from counterpoise.names.units import (
    aligned,
    byte_scale,
    bytes_text,
    counted,
    lasted,
    messages_text,
    times,
)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0.0, "0 B/s"),
        (float("nan"), "0 B/s"),
        (-1.0, "0 B/s"),
        (0.26, "0.3 B/s"),
        (999.4, "999 B/s"),
        (999.6, "1.0 kB/s"),
        (12_345, "12.3 kB/s"),
        (123_456, "123 kB/s"),
        (999_600, "1.0 MB/s"),
        (5e9, "5.0 GB/s"),
        (5e19, "50000 PB/s"),
    ],
)
def test_a_rate_is_written_in_the_largest_unit_that_it_reaches(
    per_second: float, text: str
) -> None:
    assert bytes_text(per_second) == text


@pytest.mark.parametrize(
    ("largest", "scale"),
    [(999.0, (1.0, "B/s")), (1000.0, (1e3, "kB/s")), (1e6, (1e6, "MB/s")), (5e12, (1e9, "GB/s"))],
)
def test_an_axis_has_the_largest_unit_that_it_reaches(
    largest: float, scale: tuple[float, str]
) -> None:
    assert byte_scale(largest) == scale


def test_rates_ratios_and_durations_are_rounded() -> None:
    assert messages_text(4_500) == "4.5k msg/s"
    assert messages_text(12) == "12 msg/s"
    assert times(1.26) == "1.3\N{MULTIPLICATION SIGN}"
    assert lasted(-0.4) == "0 s"
    assert lasted(119) == "119 s"
    assert [lasted(2 * size) for size in (60, 3600, 86_400)] == ["2 min", "2 h", "2 d"]
    assert lasted(600) == "10 min"
    assert lasted(4 * 86_400) == "4 d"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 moves"), (1, "1 move"), (2, "2 moves"), (1200, "1,200 moves")]
)
def test_things_are_counted_in_the_plural_unless_there_is_one(number: int, text: str) -> None:
    assert counted(number, "move") == text


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("broker-1", False),
        ("", False),
    ],
)
def test_which_addresses_are_reached_on_this_machine_alone(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


@pytest.mark.parametrize(
    ("name", "extensible"),
    [
        (EXTENSIBLE, True),
        ("com.acme.OurExtensibleLoadManager", True),
        (MODULAR, False),
        ("", False),
    ],
)
def test_which_load_manager_is_meant(name: str, extensible: bool) -> None:
    assert is_extensible(name) is extensible


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        ("public/default/__change_events", True),
        ("public/default/__change_events-partition-0", True),
        ("public/default/__transaction_buffer_snapshot", True),
        ("public/default/orders-sub__transaction_pending_ack", True),
        ("public/default/orders-sub__transaction_pending_ack-partition-2", True),
        ("pulsar/system/transaction_coordinator_assign-partition-7", True),
        ("pulsar/system/__transaction_log_3", True),
        ("public/default/__transaction_log_3", False),
        ("public/default/my__change_events", False),
        ("public/default/__transaction_pending_ack_of_orders", False),
        ("public/default/orders", False),
    ],
)
def test_which_topics_are_pulsars_own(topic: str, system: bool) -> None:
    assert is_system_topic(TopicName.parse(topic)) is system


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, "x" * 200 + "…")])
def test_a_wrong_name_is_repeated_as_far_as_is_useful(length: int, shown: str) -> None:
    assert str(InvalidName("x" * length, "wrong")) == f"'{shown}': wrong"


@pytest.mark.parametrize(
    ("left", "lines"),
    [((0,), ["broker   1", "b       10"]), ((), ["broker   1", "     b  10"]),
     ((0, 1), ["broker  1", "b       10"])],
)  # fmt: skip
def test_columns_are_aligned_at_the_right_but_for_those_that_are_named(
    left: tuple[int, ...], lines: list[str]
) -> None:
    assert aligned([("broker", "1"), ("b", "10")], left) == lines
