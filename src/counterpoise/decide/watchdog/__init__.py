"""What is wrong with a cluster although it answers: pure judgement of what was seen.

`sight.py` is what was seen, `judge.py` what is to be said of it, and what would help.
"""
