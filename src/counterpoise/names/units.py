"""Formats figures for people."""

from collections.abc import Collection, Sequence

_SIZES = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3))


def bytes_text(per_second: float) -> str:
    """A rate in bytes/s as text, in the largest unit in which the number exceeds 1."""
    for unit, size in _SIZES:
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.0f} B/s"


def byte_scale(largest: float) -> tuple[float, str]:
    """The divisor and unit name for the axis of a chart of bytes/s up to ``largest``."""
    return next(((size, unit) for unit, size in _SIZES if largest >= size), (1.0, "B/s"))


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun, in the plural unless it is 1: `1 move`, `1,200 moves`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Rows of cells as lines; columns are aligned at the right, those numbered in ``left`` not."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
