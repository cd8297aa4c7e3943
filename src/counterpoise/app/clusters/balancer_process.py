"""A balancer on Spark as a child process, beside the cluster that it balances."""

import sys
from collections.abc import Iterable
from pathlib import Path

from counterpoise.app.clusters.processes import ChildSpec


def balancer_spec(admin_url: str, history: Path, options: Iterable[str]) -> ChildSpec:
    """How to start ``counterpoise balance --execute``; its log is in the history's directory."""
    return ChildSpec(
        name="balancer",
        argv=[
            sys.executable,
            "-m",
            "counterpoise.app.main",
            "balance",
            "--execute",
            "--admin-url",
            admin_url,
            "--history",
            str(history),
            *options,
        ],
        is_ready=lambda _: True,
        log=history / "balancer.log",
        # A round that is cut off is taken up again by the next balancer on this history.
        stop_within_s=5.0,
    )
