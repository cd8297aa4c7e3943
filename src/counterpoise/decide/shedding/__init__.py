"""Shedding: which bundles leave which brokers, and why."""

from counterpoise.decide.shedding.registry import SHEDDERS as SHEDDERS
from counterpoise.decide.shedding.strategy import Shedder as Shedder
