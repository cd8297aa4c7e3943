"""Brokers, their metadata store and their network in one thread and in simulated time.

The code under test is the brokers' own: the ownership protocols, their runner, leader election and
lookups, on an event loop whose clock a history moves (`loop`), and on a store whose network loses,
delays, repeats and cuts (`store`). A history (`history`) is made from a seed and replays exactly;
judges (`judges`) watch all the time; when one finds a violation, the history's story is printed.
"""
