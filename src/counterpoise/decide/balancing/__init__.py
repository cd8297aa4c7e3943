"""A round of balancing: when it is due, what moves, where to, and what the next round remembers."""
