"""The balancer on Spark: watches a cluster by its admin API, decides, moves, keeps a history.

A *poll* asks every broker for its load once. The *history* is the Delta tables of all polls, of
what was decided and what became of it. To *fold* is to add a poll's reports to the averages.
"""
