"""Delivery: decides which entries of a subscription are sent to which of its consumers, and when.

A `Subscription` uses a `Dispatcher` (``dispatcher.py``), one of those that ``by_type.py`` lists. A
dispatcher knows its log and its `Recipient`s, never the subscription.
"""
