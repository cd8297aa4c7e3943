"""A cluster's watchdog: `look.py` reads what is needed beside the load, `watchdog.py` alerts and,
on request, carries out safe remedies. What is wrong is judged in `decide/watchdog/`.
"""
