"""The pictures of the concepts, drawn with the code that brokers run where there is any."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.hashing import topic_hash
from counterpoise.names.namespace import NamespaceName
from counterpoise.quota import SECOND_NS, Bucket

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "counterpoise"
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

COLORS = ("#4c78a8", "#f58518", "#54a24b")
FULL = 1 << 32


def draw(to: Path) -> None:
    """All of them."""
    for name, height, make in (
        ("ring", 2.6, _ring),
        ("move", 1.7, _move),
        ("bucket", 3.0, _bucket),
    ):
        figure, axes = plt.subplots(figsize=(7.5, height), layout="constrained")
        make(axes)
        figure.savefig(to / f"{name}.svg", metadata={"Date": None}, transparent=True)
        plt.close(figure)


def _ring(axes: Axes) -> None:
    """A namespace's hash range, cut into bundles, each at a broker; topics fall where they hash."""
    bundles = NamespaceBundles.of_count(NamespaceName.parse("shop/orders"), 4)
    owners = (0, 1, 2, 0)
    for bundle, owner in zip(bundles.bundles, owners, strict=True):
        low, high = bundle.range.lower / FULL, (bundle.range.upper + 1) / FULL
        axes.barh(0, high - low, left=low, height=0.5, color=COLORS[owner], edgecolor="white")
        axes.text(
            (low + high) / 2,
            0,
            f"{bundle.range}\nbroker-{owner + 1}",
            ha="center",
            va="center",
            color="white",
            fontsize=9,
        )
    for number in range(5):
        at = topic_hash(f"persistent://shop/orders/day-{number}") / FULL
        axes.annotate(
            f"day-{number}",
            (at, 0.26),
            (at, 0.5 + 0.17 * (number % 3)),
            ha="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": "#666666"},
        )
    axes.set(xlim=(0, 1), ylim=(-0.4, 1.0))
    axes.axis("off")


def _move(axes: Axes) -> None:
    """From a load report to a bundle's move."""
    steps = (
        "brokers report\nload per bundle",
        "reports are folded\ninto averages",
        "the strategy decides:\nwhat leaves, and why",
        "placement chooses\na destination",
        "the bundle moves;\nits new owner is asked",
    )
    for number, text in enumerate(steps):
        axes.text(
            number,
            0,
            text,
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.45", "facecolor": "#eef3f8", "edgecolor": "#4c78a8"},
        )
        if number:
            axes.annotate(
                "",
                (number - 0.46, 0),
                (number - 0.56, 0),
                arrowprops={"arrowstyle": "-|>", "color": "#4c78a8"},
            )
    axes.annotate(
        "",
        (0, -0.35),
        (4, -0.35),
        arrowprops={"arrowstyle": "-|>", "color": "#4c78a8", "connectionstyle": "arc3,rad=-0.08"},
    )
    axes.text(
        2, -0.9, "and again, every shedding interval", ha="center", fontsize=8.5, color="#4c78a8"
    )
    axes.set(xlim=(-0.5, 4.5), ylim=(-1.05, 0.4))
    axes.axis("off")


def _bucket(axes: Axes) -> None:
    """What passes two buckets of one rate, which keep little and much while they are idle."""
    times = np.arange(0, 6, 0.02)
    kept = ((100, "a second's worth is kept, as in Pulsar"), (2, "16 ms' worth, as here"))
    for (capacity, label), color in zip(kept, COLORS, strict=False):
        bucket, passed, through = Bucket(100, 0, capacity=capacity), 0, []
        for at in times:
            now = round(at * SECOND_NS)
            # 200 a second are wanted, except for a rest in the middle.
            if not 2 <= at < 4 and bucket.update_balance(now) > 0:
                bucket.take(4, now)
                passed += 4
            through.append(passed)
        axes.plot(times, through, color=color, linewidth=1.4, label=label)
    axes.axvspan(2, 4, color="#999999", alpha=0.12)
    axes.text(3, 20, "a rest", ha="center", fontsize=9, color="#666666")
    axes.set(xlabel="seconds", ylabel="messages that passed", title="", xlim=(0, 6), ylim=(0, None))
    axes.set_title("A limit of 100 a second; a producer wants 200", loc="left", fontsize=10)
    axes.legend(fontsize=9, frameon=False, loc="upper left")
    axes.grid(alpha=0.25)
