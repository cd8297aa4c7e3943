"""Hypothesis without a deadline: how long an example takes says nothing about the protocol."""

from hypothesis import HealthCheck, settings

settings.register_profile("wire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")
