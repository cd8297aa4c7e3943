"""``counterpoise balance --plan FILE``: carry out a plan that an operator approved."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_security
from counterpoise.app.errors import UserError
from counterpoise.app.output import say_with_time, surviving_closed_output
from counterpoise.app.packages import needed_by
from counterpoise.app.times import seconds
from counterpoise.security.client import http_session

if TYPE_CHECKING:
    from counterpoise.decide.advice.plan import AdvisedPlan
    from counterpoise.decide.balancing.approval import ApprovalRules
    from counterpoise.pipeline.drive.approved import CarriedOut

EXIT_LEFT = 1


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Give ``balance`` the options of a plan."""
    plan = parser.add_argument_group("an approved plan")
    plan.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="carry out this plan of `advise --save` (without --execute: hold it against the "
        "cluster only), and end; status 1 when some of it was left",
    )
    plan.add_argument(
        "--valid-for",
        type=seconds,
        default=3600.0,
        metavar="TIME",
        help="how old the loads may be that the plan rests on (default 1h)",
    )
    plan.add_argument(
        "--partial",
        action="store_true",
        help="carry out the steps that still fit the world, even if others do not",
    )


def run_plan(args: argparse.Namespace, rules: ApprovalRules) -> int:
    """Check the plan, and carry it out with ``--execute``."""
    with needed_by("a plan"):
        from counterpoise.pipeline.drive.approved import PlanRefusedError
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.lease import HistoryInUseError
        from counterpoise.pipeline.policies import CannotSeeError
    plan = _read(args.plan)
    try:
        came = asyncio.run(_carry_out(args, plan, rules))
    except (
        PlanRefusedError, CannotSeeError, HistoryFaultError, HistoryInUseError, ValueError
    ) as error:  # fmt: skip
        raise UserError(str(error)) from None
    return report_outcome(args, plan, came)


def _read(path: Path) -> AdvisedPlan:
    from counterpoise.decide.advice.plan import AdvisedPlan, PlanError

    try:
        return AdvisedPlan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"--plan {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"--plan {path}: it is not JSON: {error}") from None
    except PlanError as error:
        raise UserError(f"--plan {path}: {error}") from None


async def _carry_out(
    args: argparse.Namespace, plan: AdvisedPlan, rules: ApprovalRules
) -> CarriedOut:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.drive.approved import ApprovedOptions, ApprovedPlan
    from counterpoise.pipeline.history.lease import LeaseOptions, lease
    from counterpoise.pipeline.history.store import open_store

    store = open_store(args.history)
    options = ApprovedOptions(
        execute=args.execute, valid_for_s=args.valid_for, partial=args.partial, rules=rules
    )
    held = lease(store, lambda: None, LeaseOptions(wait_s=args.wait_for_history))
    say = surviving_closed_output(say_with_time)
    security = client_security(args)
    async with held as mine, http_session(security) as session:
        approved = ApprovedPlan(
            session, admin_urls(args.admin_url), mine, plan, wall_clock_ms, say, options
        )
        return await approved.carry_out()


def report_outcome(args: argparse.Namespace, plan: AdvisedPlan, came: CarriedOut) -> int:
    """Say what came of a plan, and give the exit status."""
    already = f", {came.done_before} done before" if came.done_before else ""
    for bundle, reason in came.left.items():
        sys.stdout.write(f"left: {bundle}: {reason}\n")
    if not args.execute:
        count = len(plan.steps) - came.done_before - len(came.left)
        sys.stdout.write(
            f"plan {plan.id} fits: {count} moves would be carried out{already}; nothing was "
            "touched (--execute moves them)\n"
        )
        return EXIT_LEFT if came.left else 0
    moved = sum(one.status.value == "moved" for one in came.outcomes)
    sys.stdout.write(
        f"plan {plan.id}: {moved} of {len(plan.steps)} moved and verified{already}, "
        f"{len(came.left)} left\n"
    )
    return EXIT_LEFT if came.left else 0
