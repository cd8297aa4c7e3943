"""A plan as one self-contained HTML file: no network, no script."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterpoise.decide.advice.plan import AdvisedPlan, BrokerLoad
from counterpoise.names.units import byte_scale
from counterpoise.pipeline.page import drawing
from counterpoise.pipeline.page.render import render

TEMPLATE = Path(__file__).with_name("page.html")
NAMED_MOST = 40
"""More brokers than this are drawn as a curve, not as bars with names."""


def page_of(plan: AdvisedPlan) -> str:
    """A plan as an HTML page."""
    return render(
        TEMPLATE,
        plan=plan,
        brokers_plot=brokers_plot(plan),
        steps_plot=steps_plot(plan) if plan.steps else "",
    )


def brokers_plot(plan: AdvisedPlan) -> str:
    """An SVG of each broker's bytes/s before and after the plan, the most loaded first."""
    shown, after = ([change[side] for change in plan.brokers] for side in (0, 1))
    if len(shown) > NAMED_MOST:
        return _curves(plan, shown)
    scale, unit = _scale(plan)
    figure, axes = drawing.new_figure(1.5 + 0.42 * len(shown))
    places = list(range(len(shown)))
    for brokers, shift, colour, label in (
        (shown, -0.2, drawing.BEFORE, "before"),
        (after, 0.2, drawing.AFTER, "after"),
    ):
        axes.barh(
            [place + shift for place in places],
            [each.bytes_per_s / scale for each in brokers],
            height=0.38,
            color=colour,
            label=label,
        )
    axes.set_yticks(places, [drawing.plain_text(each.broker) for each in shown])
    axes.invert_yaxis()
    _mean(axes, shown, scale, vertical=True)
    axes.set_xlabel(f"{unit} in and out")
    drawing.add_legend(axes)
    return drawing.as_svg(figure)


def steps_plot(plan: AdvisedPlan) -> str:
    """An SVG of the imbalance (largest broker's bytes/s ÷ mean - 1) after each move of the plan."""
    figure, axes = drawing.new_figure(3.0)
    line = [plan.before.imbalance, *(step.imbalance_after for step in plan.steps)]
    axes.plot(range(len(line)), line, color=drawing.AFTER, marker="o" if len(line) < 60 else "")
    axes.set_xlabel("moves carried out")
    axes.set_ylabel("imbalance (largest ÷ mean - 1)")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return drawing.as_svg(figure)


def _curves(plan: AdvisedPlan, before: Sequence[BrokerLoad]) -> str:
    scale, unit = _scale(plan)
    figure, axes = drawing.new_figure(3.6)
    for brokers, colour, label in (
        (before, drawing.BEFORE, "before"),
        (plan.after.brokers, drawing.AFTER, "after"),
    ):
        loads = sorted((each.bytes_per_s / scale for each in brokers), reverse=True)
        axes.plot(range(1, len(loads) + 1), loads, color=colour, label=label)
    _mean(axes, before, scale, vertical=False)
    axes.set_xlabel("brokers, the most loaded first")
    axes.set_ylabel(f"{unit} in and out")
    axes.set_ylim(bottom=0)
    drawing.add_legend(axes)
    return drawing.as_svg(figure)


def _scale(plan: AdvisedPlan) -> tuple[float, str]:
    both = (*plan.before.brokers, *plan.after.brokers)
    return byte_scale(max((each.bytes_per_s for each in both), default=0.0))


def _mean(axes: Any, brokers: Sequence[BrokerLoad], scale: float, *, vertical: bool) -> None:
    if not brokers:
        return
    mean = sum(each.bytes_per_s for each in brokers) / len(brokers) / scale
    draw = axes.axvline if vertical else axes.axhline
    draw(mean, color=drawing.QUIET, linewidth=1, linestyle=":", label="mean")
