"""A plot of the demo's load over time, with its moves."""

from collections.abc import Sequence
from pathlib import Path

from counterpoise.app.demo.watch import DemoRecord

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Colours that colour-blind people can distinguish (Okabe and Ito)."""


def draw(record: DemoRecord, brokers: Sequence[str], path: Path) -> None:
    """Plot the demo's loads over time to a file, in the format that its name ends with."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    times = [moment.at_s for moment in record.moments]
    figure, (upper, lower) = plt.subplots(
        2, 1, sharex=True, figsize=(10, 6.5), height_ratios=(2, 1), layout="constrained"
    )
    for number, broker in enumerate(brokers):
        loads = [moment.loads[broker].throughput / 1e6 for moment in record.moments]
        colour = COLOURS[number % len(COLOURS)]
        upper.plot(times, loads, label=f"broker-{number + 1}", color=colour, linewidth=2)
    lower.plot(times, [m.imbalance for m in record.moments], color="black", linewidth=1.5)
    for axes in (upper, lower):
        for at_s in record.moved_at_s.values():
            axes.axvline(at_s, color="grey", alpha=0.4, linewidth=1, linestyle=":")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.2)
    upper.set_ylabel("messages in and out, MB/s")
    upper.legend(loc="upper right", frameon=False)
    upper.set_title(
        f"{record.moves} bundles moved: imbalance {record.before:.2f}, then {record.now:.2f}"
    )
    lower.set_ylabel("imbalance\n(largest ÷ mean - 1)")
    lower.set_xlabel("seconds under load (dotted: a bundle has moved)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
