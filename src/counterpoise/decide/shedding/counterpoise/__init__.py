"""Counterpoise's own strategy: forecasts, an objective, a price for a move, and the rent-or-buy
rule.

Start at `strategy.py`. `columns.py` computes utilisation from a view, `forecast.py` predicts each
bundle's load, `search.py` finds moves, `timing.py` decides when they are worth their price,
`reasons.py` explains the result.
"""
