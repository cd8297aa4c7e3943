"""Decides which bundles move, where to, and where they are split: functions of frozen views."""
