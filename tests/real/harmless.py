"""No request of ours stops a broker: each by the hundred, of brokers that have just started.

Every row of `docs/REQUESTS.md` is asked of brokers of Apache Pulsar whose caches are cold, while
bundles are split and unloaded. Afterwards each broker has to answer lookups of every namespace, and
the thread that answers for its metadata store has to be idle. `--question` adds a request that is
not in the table: `/admin/v2/persistent/{tenant}/{namespace}?bundle={bundle}` stops brokers, and is
how this judge was seen to fail.
"""

import asyncio
import contextlib
import json
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
from bench._real_pulsar import RealPulsar, cluster

from counterpoise.pipeline.bundle_lookup import name_in
from tests.pipeline.requests_table import RequestRow, listed_requests
from tests.real.observer import call
from tests.real.parts import PATIENCE, Started, counterpoise, settings

TENANT = "judge"
NAMESPACES = 60
"""So many that most are asked for before a lookup has loaded their bundles."""
BUNDLES = 4
TOPICS = 3
HUNDRED = 100
ROUNDS = 3
ANSWERS_WITHIN_S = 20
METADATA_THREAD = re.compile(r'^"(metadata-store-[^"]*)".*?(?=^$)', re.MULTILINE | re.DOTALL)
IDLE = "java.util.concurrent.ThreadPoolExecutor.getTask"
GROUP = "judged"
STOPS = "/admin/v2/persistent/{namespace}?bundle={bundle}"
"""Lists the topics of a bundle, and stops a broker that has not loaded the namespace's bundles."""


def judge_requests(lib: Path, home: Path, manager: str, questions: Sequence[str], seed: int) -> int:
    """Gives the number of brokers that were stopped, and of those that answer no lookups."""
    conf = settings(manager, loadBalancerSheddingEnabled="false")
    with cluster(lib, home / "cluster", 3, **conf) as pulsar:
        print(f"== {manager}: three brokers up after {pulsar.start_seconds:.0f} s", flush=True)
        judge = Judge(home, pulsar, manager, questions, random.Random(seed))
        judge.prepare()
        for number in range(ROUNDS):
            failed = asyncio.run(judge.round(number))
            if failed:
                print(f"== {manager}: FAILED: {'; '.join(failed)}", flush=True)
                return len(failed)
        print(f"== {manager}: no broker was stopped", flush=True)
        missed = judge.stopped_on_purpose()
    for each in missed:
        print(f"== {manager}: FAILED: {each}", flush=True)
    return len(missed)


class Judge:
    """One cluster's; asks, splits, unloads, and looks at what became of its brokers."""

    def __init__(
        self,
        home: Path,
        pulsar: RealPulsar,
        manager: str,
        questions: Sequence[str],
        chance: random.Random,
    ) -> None:
        self._home = home
        self._urls = pulsar.web_urls
        self._pids = list(pulsar.pids)
        assert pulsar.children is not None
        self._children = pulsar.children
        self._chance = chance
        self._requests = (
            *(each for each in listed_requests() if each.of in ("both", manager)),
            *(RequestRow("GET", each, manager) for each in questions),
        )
        self._answers: Counter[str] = Counter()
        step = (1 << 32) // BUNDLES
        ends = [f"0x{min(each * step, 0xFFFFFFFF):08x}" for each in range(BUNDLES + 1)]
        cut = [f"{a}_{b}" for a, b in pairwise(ends)]
        self._cut = dict.fromkeys(self._namespaces(), cut)
        """The ranges of each namespace's bundles when they were last read."""
        self._restarted = self._urls[0]

    def prepare(self) -> None:
        """Namespaces with topics, so that lists of topics have something to be filtered."""
        base = f"{self._urls[0]}/admin/v2"
        call(f"{base}/tenants/{TENANT}", {"allowedClusters": ["real"]}, "PUT")
        for namespace in self._namespaces():
            call(f"{base}/namespaces/{namespace}", {"bundles": {"numBundles": BUNDLES}}, "PUT")
            for number in range(TOPICS):
                call(f"{base}/persistent/{namespace}/t{number}", {}, "PUT")

    async def round(self, number: int) -> list[str]:
        """Restart brokers, ask all of it, and give what is wrong with the brokers afterwards."""
        self._restart(number % len(self._urls))
        timeout = aiohttp.ClientTimeout(total=ANSWERS_WITHIN_S)
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=2 * HUNDRED)
        began = time.monotonic()
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            asking = asyncio.create_task(self._ask_everything(session))
            while not asking.done():
                some = self._chance.sample(self._namespaces(), NAMESPACES // 10)
                await asyncio.gather(*(self._disturb(session, each) for each in some))
            await asking
            asked = sum(self._answers.values())
            print(
                f"{time.monotonic() - began:5.0f} s round {number}: {asked} requests answered: "
                f"{dict(sorted(self._answers.items()))}",
                flush=True,
            )
            self._answers.clear()
            deaf = await asyncio.gather(*(self._deaf(session, url) for url in self._urls))
        stuck = (self._stuck(index) for index in range(len(self._urls)))
        return [*(each for each in deaf if each), *(each for each in stuck if each)]

    def stopped_on_purpose(self) -> list[str]:
        """Stop a broker by the request that can, and give what our verbs then say wrongly."""
        self._restart(0)
        victim, other = (each.rpartition("/")[2] for each in self._urls[:2])
        for namespace in self._namespaces():
            bundle = self._cut[namespace][0]
            with contextlib.suppress(OSError, ValueError):
                call(f"{self._urls[0]}{STOPS.format(namespace=namespace, bundle=bundle)}", within=2)
            if self._stuck(0):
                break
        else:
            return ["no broker could be stopped, so its recognition was not tried"]
        at = ("--admin-url", self._urls[1])
        alerts = self._said("watchdog", *at, "--patience", "5s", "--interval", "2s")
        plan = self._said("drain", other, *at, "--json")
        print(f"with {victim} stopped, the watchdog says:\n{alerts}", flush=True)
        wrong = {
            "the watchdog does not say that it serves no lookups": "serves no lookups" in alerts,
            "the watchdog has more than one finding": alerts.count("ALERT") == 1,
            "a drain has no plan": '"moves"' in plan,
            "a drain moves bundles to it": f'"destination": "{victim}"' not in plan,
        }
        return [what for what, holds in wrong.items() if not holds]

    def _said(self, *words: str) -> str:
        made = Started(counterpoise(*words), self._home / f"{words[0]}.txt")
        made.process.wait(PATIENCE * 60)
        return made.text

    def _namespaces(self) -> list[str]:
        return [f"{TENANT}/n{number}" for number in range(NAMESPACES)]

    def _restart(self, index: int) -> None:
        """Kill a broker and start it again; returns once its admin port answers."""
        self._restarted = self._urls[index]
        self._children.stop(f"broker{index}", signal.SIGKILL)
        self._pids[index] = self._children.start_broker(index).pid
        self._children.wait_for(f"{self._urls[index]}/admin/v2/brokers/version", 240)

    async def _ask_everything(self, session: aiohttp.ClientSession) -> None:
        work = [
            self._ask(session, url, request, self._chance.choice(self._namespaces()))
            for url in self._urls
            for request in self._requests
            if request.method == "GET"
            for _ in range(HUNDRED)
        ]
        self._chance.shuffle(work)
        gate = asyncio.Semaphore(4 * HUNDRED)

        async def one(each: Coroutine[Any, Any, None]) -> None:
            async with gate:
                await each

        await asyncio.gather(*map(one, work))

    async def _ask(
        self, session: aiohttp.ClientSession, url: str, request: RequestRow, namespace: str
    ) -> None:
        bundle = self._chance.choice(self._cut[namespace])
        topic = name_in(f"{namespace}/{bundle}").rpartition("/")[2]
        path = request.named(
            cluster="real", broker=url.rpartition("/")[2], tenant=TENANT, group=GROUP,
            namespace=namespace.rpartition("/")[2], bundle=bundle, topic=topic,
        )  # fmt: skip
        await self._answer(session, request.method, url + path)

    async def _answer(self, session: aiohttp.ClientSession, method: str, url: str) -> bytes:
        headers = {"Content-Type": "application/json"} if method == "PUT" else {}
        try:
            async with session.request(method, url, headers=headers) as response:
                self._answers[str(response.status)] += 1
                return await response.read() if response.status == 200 else b""
        except (aiohttp.ClientError, TimeoutError) as error:
            self._answers[type(error).__name__] += 1
            return b""

    async def _disturb(self, session: aiohttp.ClientSession, namespace: str) -> None:
        """Look one bundle up, unload another to a broker, split a third.

        By brokers that were not restarted: what the others are asked finds their caches cold.
        """
        url = self._chance.choice([each for each in self._urls if each != self._restarted])
        base = f"{url}/admin/v2/namespaces/{namespace}"
        known = await self._answer(session, "GET", f"{base}/bundles")
        if known:
            ends = json.loads(known)["boundaries"]
            self._cut[namespace] = [f"{a}_{b}" for a, b in pairwise(ends)]
        looked_up, moved, split = self._chance.choices(self._cut[namespace], k=3)
        to = self._chance.choice(self._urls).rpartition("/")[2]
        await asyncio.gather(
            self._looked_up(session, url, name_in(f"{namespace}/{looked_up}")),
            self._answer(session, "PUT", f"{base}/{moved}/unload?destinationBroker={to}"),
            self._answer(session, "PUT", f"{base}/{split}/split?unload=true")
            if len(self._cut[namespace]) < 4 * BUNDLES
            else self._answer(session, "PUT", f"{base}/unload"),
        )

    async def _looked_up(self, session: aiohttp.ClientSession, url: str, topic: str) -> bool:
        path = topic.replace("://", "/", 1)
        return bool(await self._answer(session, "GET", f"{url}/lookup/v2/topic/{path}"))

    async def _deaf(self, session: aiohttp.ClientSession, url: str) -> str:
        """What is wrong with a broker's lookups; empty when each namespace's are answered."""
        deadline = time.monotonic() + PATIENCE * ANSWERS_WITHIN_S
        left = [
            f"persistent://{namespace}/t{number}"
            for namespace in self._namespaces()
            for number in range(TOPICS)
        ]
        while left and time.monotonic() < deadline:
            found = await asyncio.gather(*(self._looked_up(session, url, each) for each in left))
            left = [each for each, there in zip(left, found, strict=True) if not there]
            await asyncio.sleep(0.5 if left else 0)
        return f"{url} answers no lookup of {len(left)} topics" if left else ""

    def _stuck(self, index: int) -> str:
        """The stack of a broker's metadata thread that does not move; empty when all are idle."""
        try:
            looks = [dict(self._busy(self._pids[index])) for _ in range(2)]
        except subprocess.CalledProcessError:
            return f"{self._urls[index]} has ended"
        for name, stack in looks[1].items():
            if looks[0].get(name) == stack:
                kept = self._home / f"stack-of-broker{index}.txt"
                kept.write_text(stack)
                return f"{name} of {self._urls[index]} stands (see {kept})"
        return ""

    def _busy(self, pid: int) -> Iterator[tuple[str, str]]:
        time.sleep(2)  # two looks at one thread: what it does meanwhile announces nothing
        words = ["jstack", str(pid)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        for found in METADATA_THREAD.finditer(done.stdout):
            if IDLE not in found[0]:
                # Times differ between two looks; frames do not.
                frames = "\n".join(line for line in found[0].splitlines() if "\tat " in line)
                yield found[1], frames
