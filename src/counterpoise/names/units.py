"""Formats figures for people."""

_SIZES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3))


def bytes_text(per_second: float) -> str:
    """Bytes/s in the largest unit that leaves a figure above 1."""
    for unit, size in _SIZES:
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.0f} B/s"


def byte_scale(largest: float) -> tuple[float, str]:
    """The divisor and the unit for an axis of bytes/s whose largest value is `largest`."""
    return next(((size, unit) for unit, size in _SIZES if largest >= size), (1.0, "B/s"))


def counted(number: int, what: str) -> str:
    """So many of something, such as `1 move` or `1,200 moves`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
