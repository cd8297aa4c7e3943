"""A report on days of a history, as a page, from its gold tables."""
