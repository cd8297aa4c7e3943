"""Pictures of a plan as SVG text, by matplotlib: they need no network and no script."""

import io
from collections.abc import Sequence
from typing import Any

from counterpoise.decide.advice.plan import AdvisedPlan, BrokerLoad
from counterpoise.names.units import byte_scale

BEFORE, AFTER = "#d55e00", "#0072b2"
NAMED_MOST = 40
"""More brokers than this are a curve, not bars with names."""


def brokers_plot(plan: AdvisedPlan) -> str:
    """Bytes/s of each broker before and after, the most loaded first."""
    after = {each.broker: each for each in plan.after.brokers}
    shown = sorted(plan.before.brokers, key=lambda each: (-each.bytes_per_s, each.broker))
    if len(shown) > NAMED_MOST:
        return _curves(plan, shown)
    scale, unit = _scale(plan)
    figure, axes = _figure(1.5 + 0.42 * len(shown))
    places = list(range(len(shown)))
    for brokers, shift, colour, label in (
        (shown, -0.2, BEFORE, "before"),
        ([after[each.broker] for each in shown], 0.2, AFTER, "after"),
    ):
        axes.barh(
            [place + shift for place in places],
            [each.bytes_per_s / scale for each in brokers],
            height=0.38,
            color=colour,
            label=label,
        )
    axes.set_yticks(places, [_plain(each.broker) for each in shown])
    axes.invert_yaxis()
    _mean(axes, shown, scale, vertical=True)
    axes.set_xlabel(f"{unit} in and out")
    _legend(axes)
    return _svg(figure)


def steps_plot(plan: AdvisedPlan) -> str:
    """How even the brokers are after each step."""
    figure, axes = _figure(3.0)
    line = [plan.before.imbalance, *(step.imbalance_after for step in plan.steps)]
    axes.plot(range(len(line)), line, color=AFTER, marker="o" if len(line) < 60 else "")
    axes.set_xlabel("moves carried out")
    axes.set_ylabel("imbalance (largest ÷ mean - 1)")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return _svg(figure)


def _curves(plan: AdvisedPlan, before: Sequence[BrokerLoad]) -> str:
    scale, unit = _scale(plan)
    figure, axes = _figure(3.6)
    for brokers, colour, label in (
        (before, BEFORE, "before"),
        (plan.after.brokers, AFTER, "after"),
    ):
        loads = sorted((each.bytes_per_s / scale for each in brokers), reverse=True)
        axes.plot(range(1, len(loads) + 1), loads, color=colour, label=label)
    _mean(axes, before, scale, vertical=False)
    axes.set_xlabel("brokers, the most loaded first")
    axes.set_ylabel(f"{unit} in and out")
    axes.set_ylim(bottom=0)
    _legend(axes)
    return _svg(figure)


def _scale(plan: AdvisedPlan) -> tuple[float, str]:
    both = (*plan.before.brokers, *plan.after.brokers)
    return byte_scale(max((each.bytes_per_s for each in both), default=0.0))


def _legend(axes: Any) -> None:
    """Above the plot, where it hides nothing."""
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)


def _mean(axes: Any, brokers: Sequence[BrokerLoad], scale: float, *, vertical: bool) -> None:
    if not brokers:
        return
    mean = sum(each.bytes_per_s for each in brokers) / len(brokers) / scale
    draw = axes.axvline if vertical else axes.axhline
    draw(mean, color="#666666", linewidth=1, linestyle=":", label="mean")


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    # Without pyplot: no window system, and nothing that outlives the picture.
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.set_axisbelow(True)
    return figure, axes


def _plain(name: str) -> str:
    """A name in which nothing is a formula to matplotlib."""
    return name.replace("$", r"\$")


def _svg(figure: Any) -> str:
    import matplotlib as mpl

    text = io.StringIO()
    # The same plan gives the same page.
    with mpl.rc_context({"svg.hashsalt": "plan", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    written = text.getvalue()
    return written[written.index("<svg") :]
