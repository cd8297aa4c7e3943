"""A balancer on Spark as a child process, beside the cluster that it balances."""

import sys
from collections.abc import Iterable
from pathlib import Path

from counterpoise.app.clusters.processes import ChildSpec


def balancer_spec(admin_url: str, history: Path, options: Iterable[str]) -> ChildSpec:
    """Describe the child process ``counterpoise balance --execute``.

    ``history`` is the directory of its history and its log; ``options`` are further options.
    """
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
        # Short: the next balancer on this history resumes a round that was interrupted.
        stop_within_s=5.0,
    )
