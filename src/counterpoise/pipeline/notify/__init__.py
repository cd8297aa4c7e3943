"""Notices of a watcher or a balancer to one webhook: findings, rounds, refusals and stops."""
