"""Leader election and bundle ownership: state machines, events in and effects out.

`events` and `port` are what all ownership protocols have in common, `protocols` chooses one by
name. A protocol is one folder: `lock` is Pulsar's older one, `channel` that of PIP-192.
"""
