"""``/admin/v2/brokers/configuration``: every setting, and changes of those that are dynamic."""

from collections.abc import Callable, Iterable, Iterator

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.request import answer, broker_of
from counterpoise.names.options import Option, options_of, sections_of

BASE = "/admin/v2/brokers/configuration"
SETTINGS: web.AppKey[Callable[[], Iterable[Option]]] = web.AppKey("settings")
HIDDEN = "*****"
"""The text that is shown instead of the value of a setting that is a secret."""
CHECK: web.AppKey[Callable[[str, str], None]] = web.AppKey("check")


routes = route.Routes()


@routes.get(BASE, access.broker("LIST_DYNAMIC_CONFIGURATIONS"))
async def dynamic_names(request: web.Request) -> web.Response:
    """The names of the settings that can change while brokers run."""
    return answer(sorted(_dynamic(request)))


@routes.get(f"{BASE}/runtime", access.broker("LIST_RUNTIME_CONFIGURATIONS"))
async def runtime(request: web.Request) -> web.Response:
    """Every setting of this broker with its value, as text."""
    return answer({name: _text(value) for name, value in sorted(_all(broker_of(request).config))})


@routes.get(f"{BASE}/values", access.broker("LIST_DYNAMIC_CONFIGURATIONS"))
async def values(request: web.Request) -> web.Response:
    """The settings that have been changed while brokers run, with their values."""
    return answer(await broker_of(request).policies.dynamic_settings())


@routes.post(f"{BASE}/{{name}}/{{value:.*}}", access.broker("UPDATE_DYNAMIC_CONFIGURATION"))
async def set_value(request: web.Request) -> None:
    """Change a setting for every broker of the cluster."""
    name, value = request.match_info["name"], request.match_info["value"]
    option = _dynamic(request).get(name)
    if option is None:
        raise precondition_failed("Can't update non-dynamic configuration")
    option.parse(value)
    broker = broker_of(request)
    broker.live.check(name, value)
    request.app[CHECK](name, value)
    await broker.policies.set_dynamic_setting(name, value)
    await broker.live.refresh()


@routes.delete(f"{BASE}/{{name}}", access.broker("DELETE_DYNAMIC_CONFIGURATION"))
async def delete_value(request: web.Request) -> None:
    """Undo the change of a setting: each broker's own configuration applies again."""
    name = request.match_info["name"]
    if name not in _dynamic(request):
        raise precondition_failed("Can't delete non-dynamic configuration")
    broker = broker_of(request)
    await broker.policies.set_dynamic_setting(name, None)
    await broker.live.refresh()


def _dynamic(request: web.Request) -> dict[str, Option]:
    return {each.conf: each for each in request.app[SETTINGS]() if each.dynamic}


def _all(settings: object) -> Iterator[tuple[str, object]]:
    """The name and value of every setting, including those of nested sections."""
    for field, each in options_of(type(settings)):
        value = getattr(settings, field)
        yield each.conf, HIDDEN if each.secret and value else value
    for field, _ in sections_of(type(settings)):
        yield from _all(getattr(settings, field))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
