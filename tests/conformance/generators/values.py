"""Numbers and names with a character: smooth (no ties), tied (few values), wild (hostile)."""

import math
from dataclasses import dataclass
from random import Random

MODES = ("smooth", "tied", "wild")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Draws the numbers of one case.

    `smooth` draws from continuous ranges, so two values hardly ever meet; `tied` from a handful of
    round values, so they often do; `wild` also gives zero, NaN, negative, huge and tiny.
    """

    rng: Random
    mode: str

    def percent(self) -> float:
        """A usage in percent; over 100 at times."""
        rng = self.rng
        if self.mode == "tied":
            return rng.choice((0.0, 10.0, 20.0, 50.0, 80.0, 85.0, 90.0, 95.0, 100.0))
        if self.mode == "wild" and rng.random() < 0.25:
            return rng.choice((0.0, math.nan, -5.0, 100.0, 250.0, 1e6, 1e-12, 85.0, math.inf))
        return rng.uniform(0, 110)

    def usage(self, percent: float | None = None) -> dict[str, float]:
        """A `{usage, limit}` near `percent`, with a limit of its own."""
        rng = self.rng
        wanted = self.percent() if percent is None else percent
        if self.mode == "tied":
            limit = rng.choice((100.0, 100.0, 1000.0, 800.0))
        else:
            limit = rng.choice((100.0, 100.0, 400.0, 1e6, rng.uniform(1, 1e7)))
        if self.mode == "wild" and rng.random() < 0.1:
            limit = rng.choice((0.0, -1.0, math.nan, 1e-3, 1e30))
        return {"usage": wanted * limit / 100.0, "limit": limit}

    def amount(self, scale: float) -> float:
        """A rate or throughput of the order of `scale`."""
        rng = self.rng
        if self.mode == "tied":
            return scale * rng.choice((0, 0.25, 0.5, 1, 1, 1, 2, 4))
        if self.mode == "wild" and rng.random() < 0.2:
            return rng.choice((0.0, -0.0, math.nan, -scale, scale * 1e6, 1e-300, 2147483647.0))
        return scale * rng.lognormvariate(0, 1)


@dataclass(frozen=True, slots=True)
class Names:
    """Draws the names of one case: brokers, namespaces and bundles, some of them unusual."""

    rng: Random

    def broker(self, index: int) -> str:
        return f"{self.rng.choice(('broker', 'b', '10.0.0.', 'h.example.com-'))}{index}:8080"

    def namespace(self) -> str:
        rng = self.rng
        tenant = rng.choice(("public", "t", "tenant-1", "a.b"))
        return f"{tenant}/{rng.choice(('default', 'ns', 'n=1', 'orders'))}-{rng.randrange(40)}"

    def bundle(self) -> str:
        rng = self.rng
        roll = rng.random()
        if roll < 0.93:
            namespace = self.namespace()
        else:
            host = f"host{rng.randrange(5)}"
            namespace = rng.choice(
                (
                    f"pulsar/standalone/{host}:8080",
                    f"pulsar/{host}:8080",
                    f"sla-monitor/standalone/{host}:8080",
                    f"pulsar/{host}",
                    "pulsar/system",
                    f"pulsar/a/b/{host}:80",
                    f"sla-monitor/{host}:8080",
                )
            )
        if roll > 0.995:
            return f"bundle-{rng.randrange(1000)}"
        return f"{namespace}/{self.range()}"

    def range(self) -> str:
        low = self.rng.randrange(0, 2**32 - 2)
        high = self.rng.choice((2**32 - 1, self.rng.randrange(low + 1, 2**32)))
        return f"0x{low:08x}_0x{high:08x}"
