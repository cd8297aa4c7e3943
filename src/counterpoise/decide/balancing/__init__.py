"""A round of balancing: when it is due, what moves, where to, and what is remembered of it."""
