"""A plan as one HTML file that needs nothing else: no network, no script."""

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from counterpoise import __version__
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.names.units import bytes_text
from counterpoise.pipeline.advise.plots import brokers_plot, steps_plot

TEMPLATE = Path(__file__).with_name("page.html")


def page_of(plan: AdvisedPlan) -> str:
    """The page. Whatever a cluster calls its bundles and topics is text in it."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["bytes"] = bytes_text
    environment.filters["moment"] = _moment
    after = {each.broker: each for each in plan.after.brokers}
    ordered = sorted(plan.before.brokers, key=lambda each: (-each.bytes_per_s, each.broker))
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        plan=plan,
        brokers=[(each, after[each.broker]) for each in ordered],
        brokers_plot=brokers_plot(plan),
        steps_plot=steps_plot(plan) if plan.steps else "",
        version=__version__,
    )


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
