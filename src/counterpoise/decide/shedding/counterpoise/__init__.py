"""The strategy of our own: forecasts, an objective, a price for a move, and rent or buy.

Start at `strategy.py`. `columns.py` reads a view, `forecast.py` predicts each bundle's load,
`search.py` finds moves, `timing.py` decides when they are worth their price, `reasons.py` explains.
"""
