"""The bundles of a namespace: list, unload and split them, and hash positions of topics."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import conflict, not_found, precondition_failed
from counterpoise.admin.redirect import ask, require_bundle_owner, require_leader
from counterpoise.admin.request import (
    answer,
    body_of,
    broker_of,
    bundle_of,
    flag,
    namespace_of,
    no_content,
)
from counterpoise.admin.rest.namespaces import NAMESPACE, require_found, require_namespace
from counterpoise.admin.route import AUTHORITATIVE
from counterpoise.admin.shapes import FLAG, INT64, Shape, list_of, nullable, text, whole
from counterpoise.broker.face import ORDERED_BY_LEADER, bundles_json
from counterpoise.names.bundle import BundleName, BundleRange
from counterpoise.names.hashing import topic_hash
from counterpoise.names.topic import TopicName

RANGE = "{bundle:0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}}"
BUNDLE = f"{NAMESPACE}/{RANGE}"
IN_BUNDLE = f"/admin/v2/non-persistent/{{tenant}}/{{namespace}}/{RANGE}"
SPLIT_ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)


POSITIONS = Shape(nullable(list_of(whole(INT64))))
"""The hash positions at which to split, for ``specified_positions_divide``."""


routes = route.Routes()


@routes.get(f"{NAMESPACE}/bundles", access.namespace("GET_BUNDLE"))
async def bundles(request: web.Request) -> web.Response:
    """The boundaries of the namespace's bundles, and their number."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    return answer(bundles_json(await broker_of(request).namespaces.bundles(namespace)))


@routes.put(
    f"{NAMESPACE}/{{bundle}}/unload",
    access.SUPER_USER,
    query={"destinationBroker": text(), **AUTHORITATIVE},
)
async def unload(request: web.Request) -> None:
    """Unload a bundle; with ``destinationBroker`` hand it to that broker.

    The owner unloads it, so the request may be redirected. For a bundle without an owner the leader
    remembers the destination until the bundle's next lookup.
    """
    await require_found(request, namespace_of(request))
    bundle = await bundle_of(request)
    destination = await _destination(request)
    namespaces = broker_of(request).namespaces
    if await require_bundle_owner(request, bundle):
        await namespaces.moves.unload(bundle, destination)
        broker_of(request).tally.ordered += ORDERED_BY_LEADER in request.headers
    elif destination is not None:
        await require_leader(request)
        await namespaces.place_unowned(bundle, destination)


@routes.put(
    f"{NAMESPACE}/{{bundle}}/split",
    access.SUPER_USER,
    POSITIONS,
    {"unload": FLAG, "splitAlgorithmName": text(*SPLIT_ALGORITHMS), **AUTHORITATIVE},
)
async def split(request: web.Request) -> None:
    """Split a bundle in two or more; the body may hold the boundaries."""
    await require_found(request, namespace_of(request))
    algorithm = request.query.get("splitAlgorithmName") or None
    supported = broker_of(request).config.splitting.supported_algorithms
    if algorithm is not None and algorithm not in supported:
        raise precondition_failed(
            "Unsupported namespace bundle split algorithm, supported algorithms are "
            f"[{', '.join(supported)}]"
        )
    boundaries = body_of(request)
    if algorithm == "specified_positions_divide" and not boundaries:
        raise precondition_failed(
            "With specified_positions_divide split algorithm, splitBoundaries must not be empty"
        )
    bundle = await _to_split(request)
    if not await require_bundle_owner(request, bundle):
        raise precondition_failed(f"Failed to find ownership for ServiceUnit:{bundle}")
    await broker_of(request).namespaces.moves.split(
        bundle,
        algorithm=algorithm,
        boundaries=[int(each) for each in boundaries or ()],
        unload=flag(request, "unload"),
    )


@routes.get(f"{NAMESPACE}/{{bundle}}/topicHashPositions", access.NAMESPACE_POLICY)
async def topic_hash_positions(request: web.Request) -> web.Response:
    """The hash of each topic of a bundle, which decides its half in a split."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    bundle = await bundle_of(request)
    requested = {TopicName.parse(each) for each in request.query.getall("topics", [])}
    positions = {}
    for name in await ask(request, "GET", f"/admin/v2/namespaces/{namespace}/topics?mode=ALL"):
        topic = TopicName.parse(name)
        chosen = not requested or topic in requested or topic.partitioned_name in requested
        if topic in bundle and chosen:
            positions[name] = topic_hash(name)
    return answer(
        {"namespace": str(namespace), "bundle": str(bundle.range), "topicHashPositions": positions}
    )


@routes.get(IN_BUNDLE, access.namespace("GET_BUNDLE"))
async def non_persistent_topics(request: web.Request) -> web.Response:
    """The non-persistent topics of a bundle, from its owner; none if it has no owner. The
    request does not make this broker the owner.
    """
    await require_namespace(request, namespace_of(request))
    bundle = await bundle_of(request)
    if not await require_bundle_owner(request, bundle):
        return no_content()
    topics = broker_of(request).topics.loaded
    return answer([str(each) for each in topics if not each.is_persistent and each in bundle])


@routes.delete(BUNDLE, access.namespace("DELETE_BUNDLE"))
async def delete(request: web.Request) -> None:
    """Delete a bundle that holds no topics; 409 when it does (``deleteNamespaceBundle``)."""
    await require_namespace(request, namespace_of(request))
    bundle = await bundle_of(request)
    if await require_bundle_owner(request, bundle):
        broker = broker_of(request)
        if any(topic in bundle for topic in broker.topics.loaded):
            raise conflict("Cannot delete non empty bundle")
        await broker.namespaces.moves.drop(bundle)


async def _destination(request: web.Request) -> str | None:
    text = request.query.get("destinationBroker", "").strip()
    if not text:
        return None
    destination = text.removeprefix("http://").removeprefix("https://").rstrip("/")
    active = await broker_of(request).active_brokers()
    if destination not in active:
        raise conflict(
            "Not allowed unload namespace bundle to inactive destination broker "
            f"{destination}; active are {', '.join(sorted(active))}"
        )
    return destination


async def _to_split(request: web.Request) -> BundleName:
    text = request.match_info["bundle"]
    if text not in ("LARGEST", "HOT"):
        return await bundle_of(request)
    namespace, broker = namespace_of(request), broker_of(request)
    bundles = await broker.namespaces.bundles(namespace)
    # HOT needs the leader's averages; without them Pulsar too falls back to the largest.
    counts: dict[BundleRange, int] = {}
    for name in await ask(request, "GET", f"/admin/v2/namespaces/{namespace}/topics"):
        found = bundles.bundle_of(TopicName.parse(name)).range
        counts[found] = counts.get(found, 0) + 1
    if not counts:
        raise not_found(f"Bundle range {text} not found")
    largest = max(sorted(counts), key=lambda each: counts[each])
    return bundles.validate(largest)
