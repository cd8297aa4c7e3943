"""Leader election and bundle ownership: state machines without I/O, events in and effects out.

`port` and `events` define what every ownership protocol offers; `protocols` finds one by the name
of a load manager. `lock` is the protocol of Pulsar's modular load manager, `channel` is PIP-192's.
"""
