"""The target of an unload or a split: a bundle, a topic in it, or a whole namespace."""

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.names.bundle import BundleName, names_a_bundle
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName


@dataclass(frozen=True, slots=True)
class Target:
    """A bundle, topic or namespace; for a namespace neither ``range`` nor ``topic`` is set."""

    namespace: str
    range: str = ""
    """The bundle's hash range, ``0x…_0x…``, if a bundle is the target."""
    topic: TopicName | None = None

    async def bundle(self, cluster: ClusterAdmin) -> str | None:
        """Return the bundle's name, or that of the topic's bundle; None for a namespace."""
        if self.range:
            return f"{self.namespace}/{self.range}"
        if self.topic is None:
            return None
        found = await cluster.ask("GET", f"/lookup/v2/topic/{self.topic.rest_path}/bundle")
        return str(BundleName.parse(f"{self.namespace}/{found}"))


def target_of(text: str) -> Target:
    """Parse a target; raises ``InvalidName``."""
    if "://" in text:
        topic = TopicName.parse(text)
        return Target(str(topic.namespace_name), topic=topic)
    if names_a_bundle(text):
        bundle = BundleName.parse(text)
        return Target(str(bundle.namespace), range=str(bundle.range))
    return Target(str(NamespaceName.parse(text)))


def with_target(
    args: argparse.Namespace,
    work: Callable[[ClusterAdmin, Target, argparse.Namespace], Awaitable[int]],
) -> int:
    """Run `work` on the target that the options name, and return its exit status.

    Raises as `target_of` and `with_cluster` do.
    """
    target = target_of(args.target)
    return with_cluster(args, lambda cluster: work(cluster, target, args))
