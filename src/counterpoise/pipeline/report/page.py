"""A report as one HTML file: plots first, each followed by its figures."""

from pathlib import Path
from typing import Any

from counterpoise.names.units import counted
from counterpoise.pipeline.page.render import render
from counterpoise.pipeline.report import plots
from counterpoise.pipeline.report.recorded_days import MOVED, RecordedDays

TEMPLATE = Path(__file__).with_name("page.html")
MOVES_MOST = 25
GAPS_MOST = 40
BROKERS_MOST = 40


def page_of(shown: RecordedDays) -> str:
    """The HTML page of a report on these days."""
    failed = [move for move in shown.moves if move["status"] != MOVED]
    ranked = sorted(shown.moved, key=_relief, reverse=True)
    return render(
        TEMPLATE,
        shown=shown,
        summary=summary_of(shown),
        moves=ranked[:MOVES_MOST],
        failed=failed[-MOVES_MOST:],
        gaps=shown.gaps[:GAPS_MOST],
        brokers=shown.brokers[:BROKERS_MOST],
        plots={
            "imbalance": plots.imbalance_plot(shown),
            "load": plots.load_plot(shown) if shown.load.brokers else "",
            "moves": plots.moves_plot(shown) if shown.gain is not None else "",
            "hottest": plots.hottest_plot(shown) if shown.hottest else "",
            "rejections": plots.rejections_plot(shown) if shown.rejections else "",
            "gaps": plots.gaps_plot(shown) if shown.gaps else "",
        },
        share=plots.share_text,
        load=plots.load_text,
    )


def summary_of(shown: RecordedDays) -> list[str]:
    """The report's summary as a few sentences."""
    sentences = [
        f"The brokers were even {plots.share_text(1 - shown.uneven_part)} of the time: the most "
        f"loaded one carried {shown.mean_imbalance:.2f} times the mean, "
        f"{shown.worst_imbalance:.2f} at worst ({shown.worst_at:%d %B, %H:%M} UTC)."
    ]
    if shown.moves:
        failed = len(shown.moves) - len(shown.moved)
        text = f"{counted(len(shown.moved), 'bundle')} moved"
        text += f", {counted(failed, 'move')} failed" if failed else ", no move failed"
        if shown.gain is not None:
            text += (
                f"; in the ten minutes after a move the ratio was {abs(shown.gain):.2f} "
                f"{'lower' if shown.gain >= 0 else 'higher'} than in those before"
            )
        sentences.append(text + ".")
    else:
        sentences.append("No bundle was moved.")
    if shown.hottest:
        first = shown.hottest[0]
        sentences.append(
            f"The hottest bundle, {first['bundle']}, carried {plots.share_text(first['part'])} of "
            "the cluster's load."
        )
    missing = sum(gap["polls"] for gap in shown.gaps if gap["kind"] == "broker")
    silent = [gap for gap in shown.gaps if gap["kind"] == "silence"]
    if not shown.gaps:
        sentences.append("Nothing is missing in the record.")
    else:
        sentences.append(
            f"Brokers did not answer {counted(missing, 'time')}, and the record was interrupted "
            f"{counted(len(silent), 'time')}."
        )
    return sentences


def _relief(move: dict[str, Any]) -> float:
    """By how many bytes/s a move relieved its source."""
    before, after = move["source_before"], move["source_after"]
    return before - after if before is not None and after is not None else 0.0
