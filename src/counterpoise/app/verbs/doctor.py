"""``counterpoise doctor``: explains what the settings of a broker.conf will do."""

import argparse
import json
import sys
from collections.abc import Sequence
from textwrap import fill

from counterpoise.app.conf import read_conf
from counterpoise.app.doctor.diagnosis import Diagnosis, Severity
from counterpoise.app.doctor.examine import examine
from counterpoise.app.doctor.general import unknown_names
from counterpoise.app.doctor.setup import Setup
from counterpoise.app.errors import UserError
from counterpoise.app.settings.table import table

EXIT_PROBLEMS = 1
_WIDTH = 96


def run(args: argparse.Namespace) -> int:
    """Run ``doctor``: examine a configuration; the exit status says whether there are problems."""
    if args.list:
        sys.stdout.write(_settings())
        return 0
    if args.file and args.conf and args.file != args.conf:
        raise UserError(f"two files are named, {args.file} and {args.conf}: name one")
    path = args.file or args.conf
    if not path and not args.settings:
        raise UserError("name a broker.conf with --conf, or settings with --set NAME=VALUE")
    setup = Setup(read_conf(path, args.settings), args.brokers, args.bundles)
    findings = examine(setup)
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    unknown = unknown_names(setup)
    if args.json:
        answer = {
            "problems": problems,
            "findings": [finding.to_json() for finding in findings],
            "unknown": unknown,
        }
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        sys.stdout.write(_report(path or "these settings", findings, unknown))
    return EXIT_PROBLEMS if problems else 0


def _settings() -> str:
    """Return a text on every balancing and rate setting: what it does, default, range, readers."""
    lines = []
    for name, entry in sorted(table().items()):
        option = entry.option
        default = ",".join(option.default) if option.kind is tuple else option.default
        shown = str(default).lower() if option.kind is bool else default
        traits = [f"default {shown}" if shown not in (None, "") else "no default"]
        traits += [option.unit] if option.unit else []
        traits += [option.range_text]
        traits += ["dynamic"] if option.dynamic else []
        traits += ["deprecated"] if option.deprecated else []
        traits += [f"read by {', '.join(entry.rooms)}" if entry.rooms else "not read here"]
        lines.append(f"{name}\n  {entry.why}\n  {'; '.join(traits)}\n")
    return "".join(lines)


def _report(what: str, findings: Sequence[Diagnosis], unknown: Sequence[str]) -> str:
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    advice = len(findings) - problems
    head = f"{what}: {_amount(problems, 'problem')}, {_amount(advice, 'piece')} of advice\n"
    parts = [head, *(_paragraph(finding) for finding in findings)]
    if unknown:
        names = fill(", ".join(unknown), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        parts.append(f"Read by no broker of Pulsar 4.0, and left alone:\n{names}\n")
    return "\n".join(parts)


def _amount(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _paragraph(finding: Diagnosis) -> str:
    lines = [f"{finding.severity.value.upper()}: {finding.title}  [{finding.rule}]"]
    lines += [f"  {name} = {shown}" for name, shown in finding.settings.items()]
    lines.append(fill(finding.why, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    changes = ", ".join(f"{name}={value}" for name, value in finding.change.items())
    if changes:
        lines.append(f"  set: {changes}")
    if finding.advice:
        lines.append(f"  do:  {finding.advice}")
    if finding.links:
        lines.append("  see: " + " ".join(finding.links))
    return "\n".join(lines) + "\n"
