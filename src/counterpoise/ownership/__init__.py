"""Who leads the cluster and who owns which bundle: machines, records in and effects out.

`port` is what every ownership protocol has in common, `protocols` where each is chosen by name.
A protocol is one folder: `lock` is Pulsar's older one, lock and redirect.
"""
