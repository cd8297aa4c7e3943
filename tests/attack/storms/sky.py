"""Where a storm breaks: a broker, and who is connected to it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.attack.storms.client import Client


@dataclass(slots=True)
class Sky:
    """Where a storm breaks, and how large it is: 1 is the whole of it."""

    service_url: str
    admin_url: str
    scale: float
    _here: list[Client] = field(default_factory=list)

    def some(self, count: int) -> int:
        """So many of the whole storm."""
        return max(2, int(count * self.scale))

    async def clients(self, count: int, **connect: Any) -> list[Client]:
        """Connect so many."""
        found = []
        for _ in range(count):
            found.append(await Client.dial(self.service_url, **connect))
            self._here.append(found[-1])
        return found

    async def clear(self) -> None:
        """Let everybody leave who is still here."""
        for each in self._here:
            await each.leave()
        self._here.clear()

    async def get(self, *paths: str) -> list[int]:
        """Ask the admin API all of it at once; the statuses."""
        async with aiohttp.ClientSession(
            self.admin_url,
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(120),
        ) as http:

            async def one(path: str) -> int:
                async with http.get(path) as answer:
                    async for _ in answer.content.iter_any():
                        pass
                    return answer.status

            return await asyncio.gather(*map(one, paths))

    async def put(self, path: str, body: Any = None) -> None:
        """Make something by the admin API."""
        async with (
            aiohttp.ClientSession(self.admin_url) as http,
            http.put(path, json=body) as answer,
        ):
            assert answer.status < 300, await answer.text()
