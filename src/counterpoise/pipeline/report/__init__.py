"""A report on some days of a history, as an HTML page made from its gold tables."""
