"""The same asked of many: of each partition of a topic, of each bundle of a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from counterpoise.admin.redirect import ask
from counterpoise.admin.shapes import Json

AT_ONCE: Final = 32
"""How many are asked at a time: each is a connection, and a task, of its own."""


async def ask_each(
    request: web.Request, method: str, paths: Iterable[str], *, told: Json = None
) -> list[Json]:
    """What each path answers, in order; raises the first refusal."""
    answers = await try_each(request, method, paths, told=told)
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return answers


async def try_each(
    request: web.Request, method: str, paths: Iterable[str], *, told: Json = None
) -> list[Json | Exception]:
    """What each path answers, or its refusal, in order."""
    left = list(enumerate(paths))[::-1]
    found: list[Json | Exception] = [None] * len(left)

    async def work() -> None:
        while left:
            number, path = left.pop()
            try:
                found[number] = await ask(request, method, path, told=told)
            except Exception as error:
                found[number] = error

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(left)))))
    return found
