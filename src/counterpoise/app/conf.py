"""``--conf broker.conf`` and ``--set name=value``: the settings given to a verb."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from counterpoise.app.errors import UserError
from counterpoise.app.files import read_text
from counterpoise.names.options import from_conf
from counterpoise.names.properties import Properties, parse_properties

T = TypeVar("T")


def conf_argv(args: argparse.Namespace) -> list[str]:
    """Return a command's options ``--conf`` and ``--set`` as arguments for a child process."""
    argv = ["--conf", args.conf] if args.conf else []
    return argv + [text for each in args.settings for text in ("--set", each)]


def read_conf(
    path: str | None,
    settings: Sequence[str] = (),
    own: Callable[[Properties], Iterable[type]] = lambda _: (),
) -> Properties:
    """Read the settings of a broker.conf at `path`, overridden by ``NAME=VALUE`` texts (``--set``).

    ``own`` returns the option classes of an operator's own strategies, whose names are then known.
    Raises `UserError` if the file cannot be read or a text is malformed, and ``ConfigError`` for a
    ``--set`` whose name no program knows, or whose value is invalid.
    """
    properties = given_conf(path, settings)
    if settings:
        # Imported late: the settings table imports every package, and most calls have no --set.
        from counterpoise.app.settings.table import check_settings

        names = [each.partition("=")[0].strip() for each in settings]
        typed = {name: properties.values[name] for name in names}
        check_settings(typed, own(properties))
    return properties


def given_conf(path: str | None, settings: Sequence[str] = ()) -> Properties:
    """Read the settings as `read_conf` does, without checking the names and values of ``--set``."""
    properties = parse_properties(read_text(path)) if path else Properties()
    overrides = {}
    for text in settings:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise UserError(f"--set {text}: expected NAME=VALUE, such as minUnloadMessage=100")
        overrides[name.strip()] = value.strip()
    return properties.overridden(overrides)


def changing_nothing(settings: Sequence[str], own: Iterable[type]) -> list[str]:
    """Return a sentence for each ``--set`` that only brokers read, so that a balancer ignores it.

    ``own`` are option classes whose settings are used: those of an operator's own strategies.
    """
    if not settings:
        return []
    from counterpoise.app.settings.table import of_brokers_alone

    return of_brokers_alone(settings, own)


def settings_from(cls: type[T], properties: Properties) -> T:
    """Make an options dataclass from settings; raises ``ConfigError`` with the invalid line."""
    return from_conf(cls, properties.values, properties.lines)
