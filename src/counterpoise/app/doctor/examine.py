"""Runs all checks of a broker's settings."""

from counterpoise.app.doctor import bundles, floors, general, managers, timing, weights
from counterpoise.app.doctor.diagnosis import Diagnosis, Severity
from counterpoise.app.doctor.setup import Setup

CHECKS = (
    *general.CHECKS,
    *managers.CHECKS,
    *floors.CHECKS,
    *weights.CHECKS,
    *bundles.CHECKS,
    *timing.CHECKS,
)


def examine(setup: Setup) -> list[Diagnosis]:
    """Run all checks on a configuration, and return the findings, problems first."""
    found = [finding for check in CHECKS for finding in check(setup)]
    return sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)
