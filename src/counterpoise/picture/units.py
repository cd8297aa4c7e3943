"""Formats loads for people."""

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")
_TIMES = (("d", 86_400), ("h", 3600), ("min", 60))


def bytes_per_s(value: float) -> str:
    """A throughput as text, such as ``12.3 MB/s``."""
    return _scaled(value, _SIZES, " ") + "/s"


def messages_per_s(value: float) -> str:
    """A message rate as text, such as ``4.5k msg/s``."""
    return _scaled(value, _COUNTS, "") + " msg/s"


def times(ratio: float) -> str:
    """A load ÷ the mean as text, such as 1.8 with the multiplication sign."""
    return f"{ratio:.1f}\N{MULTIPLICATION SIGN}"


def lasted(seconds: float) -> str:
    """A duration as text in its largest unit, such as ``5 min``."""
    for unit, size in _TIMES:
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _scaled(value: float, units: tuple[str, ...], space: str) -> str:
    if not value > 0:
        return f"0{space}{units[0]}"
    place = 0
    while value >= 999.5 and place < len(units) - 1:
        value /= 1000
        place += 1
    digits = 0 if value >= 99.5 or (place == 0 and value >= 9.95) else 1
    return f"{value:.{digits}f}{space}{units[place]}"
