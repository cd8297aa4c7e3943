"""``/admin/v2/brokers``: which brokers there are, which one leads, how they are configured."""

import logging
from http import HTTPStatus

from aiohttp import web

from counterpoise import __version__
from counterpoise.admin import access, route
from counterpoise.admin.errors import RestError, not_found
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.redirect import to_broker_of
from counterpoise.admin.request import answer, broker_of, plain
from counterpoise.admin.shapes import FLAG, whole

log = logging.getLogger(__name__)

BASE = "/admin/v2/brokers"
SHUTDOWN = {"maxConcurrentUnloadPerSec": whole(), "forcedTerminateTopic": FLAG}


routes = route.Routes()


@routes.get(f"{BASE}/leaderBroker", access.broker("GET_LEADER_BROKER"))
async def leader(request: web.Request) -> web.Response:
    """The id and URL of the elected leader; 404 while there is none."""
    found = await broker_of(request).ask_leader()
    if found is None:
        raise not_found("Couldn't find leader broker")
    return answer({"brokerId": found.broker_id, "serviceUrl": found.service_url})


@routes.get(f"{BASE}/health", access.broker("HEALTH_CHECK"))
async def health(request: web.Request) -> web.Response:
    """``ok`` when this broker is registered and its metadata session is alive."""
    broker = broker_of(request)
    if not broker.is_ready or broker.id not in await broker.active_brokers():
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "the broker is not registered")
    return plain("ok")


@routes.get(f"{BASE}/ready", access.KNOWN)
async def ready(request: web.Request) -> web.Response:
    """``ok`` once the broker is registered and serves."""
    return await health(request)


@routes.post(f"{BASE}/shutdown", access.broker("SHUTDOWN"), query=SHUTDOWN)
async def shutdown(request: web.Request) -> None:
    """Stop this broker; its bundles go to the others first.

    ``maxConcurrentUnloadPerSec`` limits how many begin to move in a second; 0 or none: all at once.
    ``forcedTerminateTopic=false`` has no effect: topics never wait until their clients have left.
    """
    unloads_per_s = whole_number(request.query.get("maxConcurrentUnloadPerSec") or "0")
    if request.query.get("forcedTerminateTopic", "").lower() == "false":
        log.warning(
            "forcedTerminateTopic=false has no effect: no topic waits until its clients have left"
        )
    log.warning("%s stops: an administrator asked for its shutdown", broker_of(request).id)
    broker_of(request).request_stop(unloads_per_s)


@routes.get(f"{BASE}/version", access.KNOWN)
async def version(request: web.Request) -> web.Response:
    """This broker's version, as plain text."""
    return plain(__version__)


@routes.get(f"{BASE}/backlog-quota-check", access.broker("CHECK_BACKLOG_QUOTA"))
async def backlog_quota_check(request: web.Request) -> None:
    """Enforce the backlog quotas of this broker's topics now."""
    await broker_of(request).upkeep.check_quotas()


@routes.get(f"{BASE}/internal-configuration", access.broker("GET_INTERNAL_CONFIGURATION_DATA"))
async def internal_configuration(request: web.Request) -> web.Response:
    """The addresses of the metadata store, under the names by which Pulsar's clients read them."""
    url = broker_of(request).config.metadata_store_url
    address = url.removeprefix("zk:")
    return answer(
        {
            "metadataStoreUrl": url,
            "zookeeperServers": address,
            "configurationMetadataStoreUrl": url,
            "configurationStoreServers": address,
            "ledgersRootPath": "/ledgers",
        }
    )


@routes.get(BASE, access.broker("LIST_BROKERS"))
@routes.get(f"{BASE}/{{cluster}}", access.broker("LIST_BROKERS"))
async def active(request: web.Request) -> web.Response:
    """The ids of the brokers that are registered now."""
    # The cluster in the path is ignored, as in Pulsar.
    return answer(await broker_of(request).active_brokers())


@routes.get(
    f"{BASE}/{{cluster}}/{{broker}}/ownedNamespaces", access.broker("LIST_OWNED_NAMESPACES")
)
async def owned_bundles(request: web.Request) -> web.Response:
    """The bundles that a broker owns, in the form of ``NamespaceOwnershipStatus``."""
    broker = broker_of(request)
    broker_id = request.match_info["broker"]
    if broker_id not in await broker.active_brokers():
        raise not_found(f"Broker id '{broker_id}' not found in available brokers.")
    if broker_id != broker.id:
        await to_broker_of(request, broker_id)
    return answer(
        {
            str(bundle): {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
            for bundle in broker.namespaces.owned()
        }
    )
