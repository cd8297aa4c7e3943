"""A cluster's watchdog: `observer.py` reads what it needs besides the load, `watchdog.py` alerts
and, on request, carries out safe remedies. `decide/watchdog/` judges what is wrong.
"""
