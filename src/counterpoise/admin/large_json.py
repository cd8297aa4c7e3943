"""Encodes JSON of any size in pieces, so that the event loop serves other tasks in between.

Python's encoder holds the interpreter until it is done, also in a thread. For the figures of
100,000 subscriptions that takes seconds, in which the broker would serve no client.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from aiohttp import web

from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.shapes import Json
from counterpoise.broker.face import WorkBudget

T = TypeVar("T")
R = TypeVar("R")

IN_A_TURN: Final = 20
"""How many items are processed before other tasks of the event loop run: a millisecond or so."""
_FEW: Final = 16


async def in_turns(
    things: Iterable[tuple[str, T]], make: Callable[[T], Awaitable[Json]]
) -> dict[str, Any]:
    """The results of ``make`` by the names of ``things``, computed in several turns of the event
    loop.

    ``things`` must not change meanwhile.
    """
    found, turns = {}, WorkBudget(IN_A_TURN)
    for name, each in things:
        found[name] = await make(each)
        await turns.did()
    return found


async def each_in_turns(
    things: Iterable[T], make: Callable[[T], R], in_a_turn: int = IN_A_TURN
) -> list[R]:
    """The results of ``make`` for each thing, computed in several turns of the event loop.
    ``things`` must not change meanwhile.
    """
    found, turns = [], WorkBudget(in_a_turn)
    for each in things:
        found.append(make(each))
        await turns.did()
    return found


async def encoded(value: Json) -> Packed:
    """A value's JSON text, compressed, encoded in several turns of the event loop."""
    text, turns = Packed(), WorkBudget(3 * IN_A_TURN)
    for piece in _pieces(value):
        text.write(piece)
        await turns.did()
    return Packed.joined([text])


async def large_answer(value: Json) -> web.StreamResponse:
    """An HTTP response with JSON of any size, encoded in several turns of the event loop."""
    return answer_with(await encoded(value))


def _pieces(value: Json) -> Iterator[str]:
    if isinstance(value, dict) and _is_large(value):
        before = "{"
        for name, each in value.items():
            yield f"{before}{json.dumps(name)}: "
            yield from _pieces(each)
            before = ", "
        yield "}"
    elif isinstance(value, list) and _is_large(value):
        before = "["
        for each in value:
            yield before
            yield from _pieces(each)
            before = ", "
        yield "]"
    else:
        yield json.dumps(value)


def _is_large(value: Json) -> bool:
    """Whether a value, or a member of it, has many members."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = [each for each in within if isinstance(each, dict | list) and each]
    return len(inner) > _FEW or any(map(_is_large, inner))
