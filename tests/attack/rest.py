"""Wrong values for every route of the admin API, and requests that meet: nothing may answer 500.

``python -m tests.attack.rest --requests 200000`` attacks a cluster in this process for longer than
the suite does.
"""

import argparse
import http.client
import itertools
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from counterpoise import Cluster
from counterpoise.admin.app import all_routes
from tests.attack.rest_values import BODIES, GOOD, HEADERS, MEMBERS, METHODS, NAMES, QUERIES, VALUES
from tests.routes import SHUTDOWN, filled, holes


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its bytes go out: nothing between here and the broker tidies it."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What came of an attack: statuses, the requests that a server must not answer so, its log."""

    statuses: Counter[int] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def note(self, request: Request, status: int, answer: bytes, took_s: float) -> None:
        self.statuses[status] += 1
        self.slowest_s = max(self.slowest_s, took_s)
        if status >= 500 and status != 503:
            described = f"{request.method} {request.path[:200]} {request.body[:120]!r}"
            self.failed.append(f"{described}: {status} {answer[:300]!r}")


class LogJudge(logging.Handler):
    """Collects tracebacks and errors: nothing that a client does is an error of the broker's."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.found.append(
                f"{record.name}: {record.getMessage()[:300]} {record.exc_info!r}"[:600]
            )

    def __enter__(self) -> "LogJudge":
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)


def routes() -> list[tuple[str, str]]:
    """Method and path of every route, placeholders without their patterns."""
    return sorted({(each.method, each.template) for each in all_routes()})


def requests(rng: random.Random, count: int) -> Iterator[Request]:
    """Every route with one wrong thing each, and between those several things at once."""
    known = [each for each in routes() if each[1] != SHUTDOWN]
    one_wrong = (
        Request(method, _filled(path, rng, {hole: name}), b"{}")
        for method, path in known
        for hole in holes(path)
        for name in NAMES
    )
    bodies = (
        Request(method, _filled(path, rng, {}), body, {"Content-Type": "application/json"})
        for method, path in known
        if method in ("PUT", "POST", "DELETE")
        for body in BODIES
    )
    systematic = itertools.chain(_shuffled(rng, one_wrong), _shuffled(rng, bodies))
    both = itertools.chain.from_iterable(zip(systematic, _wild(rng, known), strict=False))
    return itertools.islice(itertools.chain(both, _wild(rng, known)), count)


def _shuffled(rng: random.Random, made: Iterator[Request]) -> list[Request]:
    found = list(made)
    rng.shuffle(found)
    return found


def _wild(rng: random.Random, known: Sequence[tuple[str, str]]) -> Iterator[Request]:
    while True:
        method, path = rng.choice(known)
        if rng.random() < 0.05:
            method = rng.choice(METHODS)
        wrong = {hole: rng.choice(NAMES) for hole in holes(path) if rng.random() < 0.25}
        query = rng.choice(QUERIES) if rng.random() < 0.4 else ""
        full = _filled(path, rng, wrong) + (f"?{query}" if query else "")
        yield Request(method, full, _body(rng), dict(rng.choice(HEADERS)))


def _body(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(BODIES)
    if kind < 0.4:
        return json.dumps(rng.choice(VALUES)).encode()
    return json.dumps(_object(rng, 2)).encode()


def _object(rng: random.Random, depth: int) -> dict[str, object]:
    def value() -> object:
        return _object(rng, depth - 1) if depth and rng.random() < 0.2 else rng.choice(VALUES)

    return {rng.choice(MEMBERS): value() for _ in range(rng.randint(1, 5))}


def _filled(path: str, rng: random.Random, wrong: dict[str, str]) -> str:
    return filled(path, lambda hole: wrong.get(hole) or rng.choice(GOOD.get(hole, ("x", "1"))))


def send(connection: http.client.HTTPConnection, request: Request) -> tuple[int, bytes]:
    """Send one request as it is and read its answer."""
    path = request.path.encode("utf-8").decode("latin-1").replace(" ", "%20")
    connection.putrequest(request.method, path, skip_accept_encoding=True)
    for name, value in request.headers.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def attack(urls: Sequence[str], made: Sequence[Request], *, outcome: Outcome) -> None:
    """Send the requests over one connection, to one broker after the other."""
    brokers = itertools.cycle(urls)
    connection, fresh = _connect(next(brokers)), True
    for request in made:
        began = time.monotonic()
        while True:
            try:
                status, answer = send(connection, request)
            except (OSError, http.client.HTTPException) as error:
                # A server may hang up after an answer, or on what is no HTTP; not on a new
                # connection whose first request is sound.
                connection.close()
                connection, again = _connect(next(brokers)), not fresh
                fresh = True
                if again:
                    continue
                outcome.statuses[0] += 1
                if _is_sound_http(request):
                    outcome.failed.append(f"{request.method} {request.path[:200]}: {error!r}")
            else:
                fresh = False
                outcome.note(request, status, answer, time.monotonic() - began)
            break
    connection.close()


def _connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)


def _is_sound_http(request: Request) -> bool:
    return not request.headers and len(request.path) < 4000 and len(request.body) < 1_000_000


def furnish(urls: Sequence[str]) -> None:
    """Make the things that sound names in the requests are names of."""
    json_ = {"Content-Type": "application/json"}
    tenant, namespace = b'{"allowedClusters":["standalone"]}', b'{"bundles":{"numBundles":4}}'
    made = [
        Request("PUT", f"/admin/v2/tenants/{each}", tenant, json_)
        for each in ("t0", "t1", "public")
    ]
    for place in ("t0/n0", "t0/n1", "t1/n0", "t1/n1", "public/default"):
        made.append(Request("PUT", f"/admin/v2/namespaces/{place}", namespace, json_))
        made += [Request("PUT", f"/admin/v2/persistent/{place}/{each}") for each in ("a", "b")]
        made.append(Request("PUT", f"/admin/v2/persistent/{place}/c/partitions", b"2", json_))
        made.append(Request("PUT", f"/admin/v2/persistent/{place}/a/subscription/s"))
    made.append(Request("PUT", "/admin/v2/clusters/c1", b"{}", json_))
    for request in made:
        for url in urls:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            status, _ = send(connection, request)
            connection.close()
            if status != 307:
                break


def meet(urls: Sequence[str], rng: random.Random, rounds: int, outcome: Outcome) -> None:
    """The same things made, changed and removed by several clients at once."""
    json_ = {"Content-Type": "application/json"}
    failover = {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    }
    isolation = json.dumps(
        {"namespaces": ["x/.*"], "primary": ["x"], "auto_failover_policy": failover}
    ).encode()
    clusters = "/admin/v2/clusters"
    at = "/admin/v2/namespaces/meet/n"
    topic = "/admin/v2/persistent/meet/n/x"
    storm = [
        Request("PUT", "/admin/v2/tenants/meet", b'{"allowedClusters":["standalone"]}', json_),
        Request("POST", "/admin/v2/tenants/meet", b'{"allowedClusters":["standalone"]}', json_),
        Request("DELETE", "/admin/v2/tenants/meet"),
        Request("DELETE", "/admin/v2/tenants/meet?force=true"),
        Request("PUT", at, b'{"bundles":{"numBundles":2}}', json_),
        Request("DELETE", at),
        Request("DELETE", f"{at}?force=true"),
        Request("POST", f"{at}/messageTTL", b"60", json_),
        Request("DELETE", f"{at}/messageTTL"),
        Request("POST", f"{at}/antiAffinity", b'"g"', json_),
        Request("PUT", f"{at}/unload"),
        Request("PUT", f"{at}/0x00000000_0x80000000/split?unload=true"),
        Request("GET", at),
        Request("PUT", topic),
        Request("DELETE", f"{topic}?force=true"),
        Request("GET", f"{topic}/stats"),
        Request("PUT", f"{topic}/subscription/s"),
        Request("DELETE", f"{topic}/subscription/s?force=true"),
        Request("PUT", f"{topic}y/partitions", b"3", json_),
        Request("POST", f"{topic}y/partitions", b"5", json_),
        Request("DELETE", f"{topic}y/partitions?force=true"),
        Request("PUT", f"{clusters}/meet", b"{}", json_),
        Request("DELETE", f"{clusters}/meet"),
        Request("POST", f"{clusters}/meet/namespaceIsolationPolicies/p", isolation, json_),
        Request("DELETE", f"{clusters}/meet/namespaceIsolationPolicies/p"),
        Request("POST", f"{clusters}/meet/failureDomains/d", b'{"brokers":["a:1"]}', json_),
        Request("DELETE", f"{clusters}/meet/failureDomains/d"),
    ]
    with ThreadPoolExecutor(8) as pool:
        shares = [[rng.choice(storm) for _ in range(rounds)] for _ in range(8)]
        list(pool.map(lambda share: attack(urls, share, outcome=outcome), shares))


def run(urls: Sequence[str], rng: random.Random, count: int, outcome: Outcome) -> None:
    """The whole attack: wrong requests with sound ones between them, then requests that meet."""
    made = list(requests(rng, count))
    for start in range(0, len(made), 500):
        furnish(urls)
        attack(urls, made[start : start + 500], outcome=outcome)
    meet(urls, rng, max(100, count // 200), outcome)


def main() -> int:
    """Attack an embedded cluster; status 1 when something answered 500 or left a traceback."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.rest")
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    outcome, rng = Outcome(), random.Random(args.seed)
    with LogJudge() as judge, Cluster(brokers=2) as cluster:
        urls = [each.admin_url for each in cluster.brokers]
        run(urls, rng, args.requests, outcome)
    write = sys.stdout.write
    write(f"{outcome.statuses.total()} requests: {dict(sorted(outcome.statuses.items()))}\n")
    write(f"slowest answer {outcome.slowest_s:.2f} s; {len(routes())} routes\n")
    for line in [*outcome.failed[:40], *judge.found[:20]]:
        write(f"{line}\n")
    write(f"{len(outcome.failed)} failed, {len(judge.found)} errors logged\n")
    return 1 if outcome.failed or judge.found else 0


if __name__ == "__main__":
    sys.exit(main())
