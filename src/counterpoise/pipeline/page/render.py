"""Renders HTML templates; all names from a cluster are escaped."""

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from counterpoise import __version__
from counterpoise.names.units import bytes_text

_SHARED = Path(__file__).parent


def render(template: Path, **values: object) -> str:
    """The HTML of a Jinja template, which extends `base.html`, with these values."""
    environment = Environment(
        loader=FileSystemLoader([template.parent, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["bytes"] = bytes_text
    environment.filters["moment"] = _moment
    return environment.get_template(template.name).render(**values, version=__version__)


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
