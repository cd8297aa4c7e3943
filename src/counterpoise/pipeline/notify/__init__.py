"""Notifies a webhook of findings, rounds, refusals and stops."""
