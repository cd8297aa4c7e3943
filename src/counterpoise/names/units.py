"""Formats figures for people."""

from collections.abc import Collection, Sequence

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")
_TIMES = (("d", 86_400), ("h", 3600), ("min", 60))
_AXES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3))


def bytes_text(per_second: float) -> str:
    """A throughput as text, such as ``12.3 MB/s``."""
    return _scaled(per_second, _SIZES, " ") + "/s"


def messages_text(per_second: float) -> str:
    """A message rate as text, such as ``4.5k msg/s``."""
    return _scaled(per_second, _COUNTS, "") + " msg/s"


def times(ratio: float) -> str:
    """A ratio, such as a broker's load ÷ the mean, as text: 1.8 and a multiplication sign."""
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


def byte_scale(largest: float) -> tuple[float, str]:
    """The divisor and unit name for the axis of a chart of bytes/s up to ``largest``."""
    return next(((size, unit) for unit, size in _AXES if largest >= size), (1.0, "B/s"))


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun, in the plural unless it is 1: `1 move`, `1,200 moves`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Format rows of cells as lines of aligned columns.

    Columns are aligned at the right; those whose index is in ``left``, at the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
