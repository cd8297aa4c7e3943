"""A bundle's initial data from its resource quota, if one was set."""

import json
import math

from counterpoise.load.average import (
    LONG_TERM_SAMPLES,
    SHORT_TERM_SAMPLES,
    BundleData,
    TimeAverageMessageData,
)
from counterpoise.load.fields import LoadDataError

_FIELDS = ("bandwidthIn", "bandwidthOut", "msgRateIn", "msgRateOut")


def quota_data(value: bytes) -> BundleData:
    """A new bundle's averages from its stored quota, weighted as if it had been measured very
    often.

    So reports change them slowly, and an operator can set a bundle's expected load in advance.
    Raises `LoadDataError`. Source: ``ModularLoadManagerImpl.getBundleDataOrDefault``.
    """
    try:
        quota = json.loads(value)
        rates = [float(quota.get(name, 0.0)) for name in _FIELDS]
        if not all(map(math.isfinite, rates)):
            raise ValueError(rates)
    except (ValueError, TypeError, AttributeError):
        raise LoadDataError("ResourceQuota", "an object of numbers", value[:40]) from None
    short, long = (
        TimeAverageMessageData(samples, samples, *rates)
        for samples in (SHORT_TERM_SAMPLES, LONG_TERM_SAMPLES)
    )
    return BundleData(short, long)
