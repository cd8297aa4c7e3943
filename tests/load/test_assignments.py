"""Bundles that were given to brokers which have not reported them yet."""

from __future__ import annotations

import numpy as np

from counterpoise.load.assignments import Assignment, Assignments
from counterpoise.load.average import BundleData

NAMESPACE = "t/n"
MOVED, STAYED = f"{NAMESPACE}/0x00000000_0x80000000", f"{NAMESPACE}/0x80000000_0xffffffff"


def test_a_bundle_counts_once_and_where_it_was_given_to() -> None:
    assignments = Assignments()
    assignments.add(MOVED, Assignment("new", BundleData.unseen(), at_ms=1))
    reported = {
        "broker": np.array(["old", "old"], object),
        "bundle": np.array([MOVED, STAYED], object),
    }
    held = assignments.namespaces(reported)
    assert held == {"old": {NAMESPACE: 1}, "new": {NAMESPACE: 1}}
