"""A plan as one self-contained HTML file: no network, no script."""

from pathlib import Path

from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.pipeline.advise.plots import brokers_plot, steps_plot
from counterpoise.pipeline.page.render import render

TEMPLATE = Path(__file__).with_name("page.html")


def page_of(plan: AdvisedPlan) -> str:
    """A plan as an HTML page."""
    return render(
        TEMPLATE,
        plan=plan,
        brokers_plot=brokers_plot(plan),
        steps_plot=steps_plot(plan) if plan.steps else "",
    )
