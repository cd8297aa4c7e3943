"""Collects all metrics of a broker and writes them in Prometheus' text format."""

from collections.abc import AsyncIterator, Iterator

from counterpoise.admin.metrics import balancing, broker, limits, topics, transactions
from counterpoise.admin.metrics.reference import MEANINGS, is_counter
from counterpoise.admin.metrics.sample import Labels, MetricSample
from counterpoise.admin.packed import Packed
from counterpoise.broker.face import Broker, WorkBudget

FIGURES_IN_A_TURN = 500
"""How many samples are processed before other tasks of the event loop run: a millisecond or two."""
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


async def gathered(of: Broker) -> AsyncIterator[MetricSample]:
    """All metric samples of a broker, those about the whole broker first.

    The broker goes on serving in between, but samples of one subject are taken at the same moment.
    """
    turns = WorkBudget(FIGURES_IN_A_TURN)
    for piece in _pieces(of):
        found = list(piece)
        for figure in found:
            yield figure
        await turns.did(len(found) or FIGURES_IN_A_TURN // 4)


def _pieces(of: Broker) -> Iterator[Iterator[MetricSample]]:
    for part in (broker, balancing, transactions, limits):
        yield part.figures(of)
    yield from topics.pieces(of)


async def text_of(figures: AsyncIterator[MetricSample]) -> Packed:
    """The samples in Prometheus' text format, which requires that all samples of a series are
    adjacent.

    So the text is complete only when the last sample is known; until then lines are kept
    compressed.
    """
    # Imported here, because a test's cluster starts faster without it, and only a scrape needs it.
    from prometheus_client.utils import floatToGoString

    series: dict[str, Packed] = {}
    labels: Labels | None = None
    written = ""
    async for figure in figures:
        lines = series.get(figure.name)
        if lines is None:
            lines = series[figure.name] = Packed()
            lines.write(_heading(figure.name))
        # Figures of one subject come together, and have the same labels.
        if figure.labels is not labels:
            labels, written = figure.labels, _written(figure.labels)
        lines.write(f"{figure.name}{written} {floatToGoString(figure.value)}\n")  # type: ignore[no-untyped-call]
    return Packed.joined(series.values())


def _written(labels: Labels) -> str:
    if not labels:
        return ""
    each = ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in sorted(labels)])
    return f"{{{each}}}"


def _heading(name: str) -> str:
    """The HELP and TYPE lines of a series. Pulsar declares all as gauges, counters too."""
    kind = "counter" if is_counter(name) else "gauge"
    return f"# HELP {name} {MEANINGS.get(name, '')}\n# TYPE {name} {kind}\n"


def content_type() -> str:
    """The media type of `text_of`, for the HTTP header."""
    from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

    return CONTENT_TYPE_PLAIN_0_0_4
