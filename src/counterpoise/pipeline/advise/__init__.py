"""Plans for an operator: `look.py` reads a cluster or a history, `text.py` and `page.py` show it.

What is advised is decided in `decide/advice/`.
"""
