"""`docs/PERFORMANCE.md`: a table of what each benchmark measured when it last ran."""

from collections.abc import Iterable
from typing import Any

from bench.figures import number

_HEAD = """# Performance

Written by `make bench ARGS=--docs` from the figures that `make bench` left in
`artifacts/bench/figures.json`. Figures of one table were measured in one run: compare a figure with
the anchor beside it, never with a figure of another machine or another day. `make bench ARGS=NAME`
repeats one benchmark. A figure without a bar is there to be watched.
"""


_TAIL = """## Where the interpreter's time goes

Flame graphs that `make profile` draws: the wider, the more of the time; what is below is called by
what is above. A picture that is opened by itself shows each function's file at the pointer.

A broker that takes messages of one entry each:

![flame graph of publishing](_static/flame-publish.svg)

A broker that delivers them to a Shared subscription:

![flame graph of delivering](_static/flame-deliver.svg)

A balancing cycle of 1,000 brokers and 1,000 bundles each, with Spark's Python processes:

![flame graph of a cycle](_static/flame-cycle.svg)
"""


def page(measured: Iterable[dict[str, Any]]) -> str:
    """The page; `measured` is what `bench._alone` writes, one for each benchmark."""
    return "\n".join([_HEAD, *(_section(each) for each in measured), _TAIL])


def _section(one: dict[str, Any]) -> str:
    sizes = "small sizes (a smoke test: nothing to quote)" if one["quick"] else "full sizes"
    rows = [
        "| figure | ours | anchor | ours ÷ anchor | bar | |",
        "| --- | --: | --: | --: | --- | --- |",
    ]
    rows += [_row(each) for each in one["figures"]]
    return "\n".join(
        [
            f"## {one['benchmark']}",
            f"{one['date']}, {one['machine']}, {sizes}, {one['seconds']:.0f} s.",
            "",
            *rows,
            "",
        ]
    )


def _row(each: dict[str, Any]) -> str:
    anchor = (
        "" if each["anchor_value"] is None else f"{each['anchor']} {number(each['anchor_value'])}"
    )
    ratio = "" if each["ratio"] is None else f"{each['ratio']:.3g}"
    verdict = {None: "", True: "holds", False: "**falls short**"}[each["holds"]]
    ours = f"{number(each['value'])} {each['unit']}"
    bar = "; ".join(filter(None, (each["bar"], each["note"])))
    cells = [each["name"], ours, anchor, ratio, bar, verdict]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
