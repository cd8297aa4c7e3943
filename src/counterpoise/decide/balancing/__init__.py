"""A round of balancing: when it is due, what moves, where to, and the memory for the next round."""
