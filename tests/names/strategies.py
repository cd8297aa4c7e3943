"""Hypothesis strategies for names."""

from hypothesis import strategies as st

from counterpoise.names.bundle import BundleName, BundleRange, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

FULL = 0xFFFFFFFF
DOTS = (".", "..")
entities = st.text("abcXYZ019_-=:.", min_size=1, max_size=12).filter(lambda t: t not in DOTS)
local_names = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="/"), min_size=1, max_size=20
).filter(lambda text: bool(text.strip()) and text not in DOTS)
namespaces = st.builds(NamespaceName, entities, entities)
topics = st.builds(
    TopicName, st.sampled_from(["persistent", "non-persistent"]), entities, entities, local_names
)
points = st.integers(0, FULL)
ranges = (
    st.tuples(points, points)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: BundleRange(min(pair), max(pair)))
)
bundles = st.builds(BundleName, namespaces, ranges)
rings = st.builds(
    lambda namespace, inner: NamespaceBundles(namespace, (0, *sorted(inner), FULL)),
    namespaces,
    st.sets(st.integers(1, FULL - 1), max_size=12),
)
