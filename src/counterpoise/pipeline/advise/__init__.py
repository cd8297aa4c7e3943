"""Plans for an operator: `plan_inputs.py` reads a cluster or a history, `text.py` and `page.py`
show the plan.

What is advised is decided in `decide/advice/`.
"""
