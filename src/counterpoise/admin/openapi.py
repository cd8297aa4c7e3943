"""The OpenAPI 3.1 description of the admin API, made from its routes."""

import inspect
from collections.abc import Iterable
from typing import Any

from counterpoise import __version__
from counterpoise.admin.parameters import PARAMETERS
from counterpoise.admin.route import Route

JsonObject = dict[str, Any]

_ERROR = {
    "description": "refused, and why",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"reason": {"type": "string"}},
                "required": ["reason"],
            }
        }
    },
}


def describe(routes: Iterable[Route]) -> JsonObject:
    """The OpenAPI description of these routes."""
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Counterpoise admin API",
            "description": "Apache Pulsar's admin API, as far as this broker has it.",
            "version": __version__,
        },
        "paths": paths,
    }


def _operation(route: Route) -> JsonObject:
    resource = route.handler.__module__.rpartition(".")[2]
    text = (inspect.getdoc(route.handler) or route.template).partition("\n\n")
    parameters = [*_path_parameters(route), *_query_parameters(route)]
    operation: JsonObject = {
        "tags": [resource],
        "summary": text[0].replace("\n", " "),
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done, or what was asked for"},
            "307": {"description": "another broker serves this; the same request goes there"},
            "default": _ERROR,
        },
    }
    if text[2]:
        operation["description"] = text[2]
    if route.body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": dict(route.body.schema)}}
        }
    return operation


def _path_parameters(route: Route) -> list[JsonObject]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMETERS[name].about,
            "schema": dict(PARAMETERS[name].schema),
        }
        for name in route.parameters
    ]


def _query_parameters(route: Route) -> list[JsonObject]:
    return [
        {"name": name, "in": "query", "schema": dict(schema)}
        for name, schema in route.query.items()
    ]
