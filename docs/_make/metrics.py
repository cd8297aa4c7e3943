"""The reference of metrics: every series that brokers, balancers and watchers serve."""

from __future__ import annotations

from counterpoise.admin.metrics.reference import GROUPS, MetricGroup, is_counter
from counterpoise.pipeline.watch.metrics import Metrics

HEAD = """\
# Metrics

Brokers serve theirs at `/metrics` of the web service, in Prometheus' format: Pulsar's under
Pulsar's names, and what Pulsar has no name for under `counterpoise_`. As there, Pulsar's are all
exposed as gauges, even those that only ever rise. `docs/grafana` has a dashboard of them.

`counterpoise balance` and `counterpoise watch` serve theirs with `--metrics PORT`, beside
`/health`: [they are below](#the-balancer).
"""
BALANCER = """\
## The balancer

Of `counterpoise balance --metrics PORT` and `counterpoise watch --metrics PORT`.

| series | kind | labels | what it says |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page's text."""
    return "\n".join([HEAD, *map(_group, GROUPS), BALANCER + "".join(_of_the_balancer())])


def _group(group: MetricGroup) -> str:
    labels = ", ".join(f"`{each}`" for each in group.labels)
    when = f" There {group.when}." if group.when else ""
    rows = (
        f"| `{name}` | {'counter' if is_counter(name) else 'gauge'} | {meaning} |\n"
        for name, meaning in group.meanings.items()
    )
    head = f"## {group.title}\n\nLabels: {labels}.{when}\n\n| series | kind | what it says |\n"
    return head + "| --- | --- | --- |\n" + "".join(rows)


def _of_the_balancer() -> list[str]:
    metrics = Metrics(lambda: 0, 5.0)
    suffix = {"counter": "_total", "histogram": "_bucket, _sum, _count"}
    return [
        f"| `{each.name}{suffix.get(each.type, '')}` | {each.type} | "
        f"{', '.join(f'`{label}`' for label in metrics.labels.get(each.name, ()))} | "
        f"{each.documentation.rstrip('.')} |\n"
        for each in metrics.registry.collect()
    ]
