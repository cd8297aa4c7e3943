"""The web application of a broker: every REST resource, ``/metrics``, answers to errors."""

from collections.abc import Callable, Iterable

from aiohttp import web

from counterpoise.admin.client_limits import CLIENT_LIMITS, HttpClientLimits
from counterpoise.admin.entrance import authenticate
from counterpoise.admin.errors import answer_errors
from counterpoise.admin.own_site import own_site
from counterpoise.admin.redirect import peers
from counterpoise.admin.request import BROKER
from counterpoise.admin.rest import (
    broker_stats,
    brokers,
    bundles,
    clusters,
    configuration,
    description,
    health,
    isolation,
    lookup,
    messages,
    metrics,
    namespace_backlog,
    namespace_policies,
    namespace_properties,
    namespaces,
    partitioned_topics,
    permissions,
    resource_groups,
    resource_quotas,
    schemas,
    subscriptions,
    tenants,
    topic_policies,
    topic_properties,
    topic_storage,
    topics,
    transactions,
)
from counterpoise.admin.rest.faults import CONTROL, FaultControl
from counterpoise.admin.rest.faults import routes as fault_routes
from counterpoise.admin.route import Route
from counterpoise.admin.shared_answers import PARTITIONS_SHARED, SHARED, SharedAnswers
from counterpoise.broker.face import Broker
from counterpoise.names.options import Option

RESOURCES = (
    schemas,
    permissions,
    description,
    configuration,
    brokers,
    clusters,
    isolation,
    tenants,
    resource_groups,
    resource_quotas,
    bundles,
    namespace_backlog,
    namespace_properties,
    namespace_policies,
    namespaces,
    partitioned_topics,
    messages,
    subscriptions,
    topic_policies,
    topic_properties,
    topic_storage,
    topics,
    transactions,
    lookup,
    broker_stats,
    metrics,
    health,
)
"""The groups of REST endpoints, in the order in which their routes are compared with a request."""

BODY_SIZE_MAX = 1024 * 1024
"""The most bytes of a request's body. The largest known use is a list of bundle boundaries."""


def all_routes() -> list[Route]:
    """Every route, in the order in which a request's path is matched against them."""
    return [each for resource in RESOURCES for each in resource.routes]


def create_app(
    broker: Broker,
    settings: Callable[[], Iterable[Option]],
    check: Callable[[str, str], None],
    limits: HttpClientLimits,
    faults: FaultControl | None = None,
) -> web.Application:
    """Make the web application that serves a broker's ``webServicePort``.

    ``settings`` lists every setting that the cluster's programs read, since some can be changed
    while brokers run; ``check`` raises ``ConfigError`` for a well-formed value that no program
    could use. ``limits`` bounds what HTTP clients use. ``faults`` sets faults for tests; None
    leaves that resource out.
    """
    app = web.Application(
        middlewares=[limits.serve, answer_errors, own_site(broker), authenticate(broker)],
        client_max_size=BODY_SIZE_MAX,
    )
    app[BROKER] = broker
    app[CLIENT_LIMITS] = limits
    app[SHARED] = SharedAnswers(broker.background)
    app[PARTITIONS_SHARED] = SharedAnswers(broker.background)
    app[configuration.SETTINGS] = settings
    app[configuration.CHECK] = check
    app.cleanup_ctx.append(peers)
    routes = all_routes()
    if faults is not None:
        app[CONTROL] = faults
        routes += fault_routes
    app[description.ROUTES] = routes
    app.router.add_routes([each.definition() for each in routes])
    return app
