"""A bundle's initial data from its resource quota, if one was set."""

import json
import math

from counterpoise.load import average
from counterpoise.load.fields import LoadDataError

_FIELDS = ("bandwidthIn", "bandwidthOut", "msgRateIn", "msgRateOut")


def quota_data(value: bytes) -> average.BundleData:
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
        average.TimeAverageMessageData(samples, samples, *rates)
        for samples in (average.SHORT_TERM_SAMPLES, average.LONG_TERM_SAMPLES)
    )
    return average.BundleData(short, long)
