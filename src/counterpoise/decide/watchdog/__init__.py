"""What is wrong with a cluster although it answers: pure judgement of what was seen.

`observation.py` is what was seen; `judge.py` finds what is wrong with it, and what would help.
"""
