"""Plans for an operator: `plan_inputs.py` reads a cluster or a history, `text.py` and `page.py`
show the plan.

The plan itself is computed by `decide/advice/`.
"""
