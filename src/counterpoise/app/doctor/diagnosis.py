"""A finding of the doctor: what is wrong, the settings that cause it, and what to change."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

ISSUE_URL = "https://github.com/apache/pulsar/issues/"


class Severity(StrEnum):
    """How serious a finding is."""

    PROBLEM = "problem"
    """The setting does not do what its name says, or works against another setting."""
    ADVICE = "advice"
    """The setting works, but not as people expect."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding about a configuration.

    ``rule`` is its short label, ``title`` says what is wrong, ``why`` explains it. ``settings`` are
    the values that cause it, by name; ``change`` is what to set instead, by name; ``advice`` is
    what else to do. ``issues`` are numbers of Apache Pulsar's public issues or pull requests.
    """

    rule: str
    title: str
    why: str
    settings: "Mapping[str, Shown]"
    change: Mapping[str, str]
    severity: Severity
    advice: str
    issues: tuple[int, ...]

    @property
    def links(self) -> list[str]:
        """The URLs of the public issues about the finding."""
        return [f"{ISSUE_URL}{number}" for number in self.issues]

    def to_json(self) -> dict[str, Any]:
        """Return the finding as ``counterpoise doctor --json`` writes it."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "title": self.title,
            "settings": {
                name: {"value": shown.value, "line": shown.line, "default": shown.is_default}
                for name, shown in self.settings.items()
            },
            "why": self.why,
            "change": dict(self.change),
            "advice": self.advice,
            "issues": self.links,
        }


@cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return the texts of all findings (``findings.toml``) by rule, or by ``rule/variant``."""
    found = files("counterpoise.app.doctor").joinpath("findings.toml").read_text("utf-8")
    return tomllib.loads(found)


def finding(
    key: str,
    settings: "Mapping[str, Shown]",
    change: Mapping[str, str] | None = None,
    *,
    severity: Severity | None = None,
    **figures: object,
) -> Diagnosis:
    """Make the finding whose texts the `catalogue` has under ``key``, ``rule`` or ``rule/variant``.

    ``figures`` fill the placeholders in the texts; ``severity`` overrides the catalogue's.
    """
    texts = catalogue()[key]
    return Diagnosis(
        key.partition("/")[0],
        texts["title"].format_map(figures),
        texts["why"].format_map(figures),
        settings,
        change or {},
        severity or Severity(texts.get("severity", "problem")),
        texts.get("advice", "").format_map(figures),
        tuple(texts.get("issues", ())),
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting's value as text, and its source: a line of the file, ``--set``, or the default."""

    value: str
    line: int | None = None
    is_default: bool = False

    def __str__(self) -> str:
        if self.is_default:
            return f"{self.value} (default)"
        return self.value if self.line is None else f"{self.value} (line {self.line})"
