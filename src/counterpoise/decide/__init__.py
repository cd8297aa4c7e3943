"""Decides which bundles move, where they go, and where they are split: functions of frozen
views.
"""
