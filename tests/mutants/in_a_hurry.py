"""A plugin of pytest for the run of one change: a property that fails need not be made smaller."""

from hypothesis import Phase, settings

settings.register_profile(
    "in a hurry", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True
)
settings.load_profile("in a hurry")
