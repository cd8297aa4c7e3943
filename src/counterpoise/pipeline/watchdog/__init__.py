"""A cluster's watchdog: `look.py` reads what is needed beside the load, `watchdog.py` alerts and,
when told to, does the safe thing. What is wrong is judged in `decide/watchdog/`.
"""
