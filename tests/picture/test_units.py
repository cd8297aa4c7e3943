"""Figures as a person reads them."""

import pytest

from counterpoise.picture.units import bytes_per_s, lasted, messages_per_s, times


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 B/s"),
        (float("nan"), "0 B/s"),
        (-1.0, "0 B/s"),
        (0.26, "0.3 B/s"),
        (999.4, "999 B/s"),
        (999.6, "1.0 kB/s"),
        (12_345, "12.3 kB/s"),
        (123_456, "123 kB/s"),
        (5e9, "5.0 GB/s"),
        (5e19, "50000 PB/s"),
    ],
)
def test_bytes(value: float, text: str) -> None:
    assert bytes_per_s(value) == text


def test_the_others() -> None:
    assert messages_per_s(4_500) == "4.5k msg/s"
    assert messages_per_s(12) == "12 msg/s"
    assert times(1.26) == "1.3\N{MULTIPLICATION SIGN}"
    assert lasted(-0.4) == "0 s"
    assert lasted(119) == "119 s"
    assert [lasted(2 * size) for size in (60, 3600, 86_400)] == ["2 min", "2 h", "2 d"]
    assert lasted(600) == "10 min"
    assert lasted(4 * 86_400) == "4 d"
