"""The shedding strategy `Counterpoise`, which is not one of Pulsar's.

Start at `strategy.py`. `columns.py` computes utilisation from a view, `forecast.py` predicts each
bundle's load, `search.py` finds moves, `timing.py` decides when they are worth their price (the
rent-or-buy rule), `reasons.py` explains the result.
"""
