"""``counterpoise balance --plan FILE``: carry out a plan that an operator approved."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.errors import UserError
from counterpoise.app.output import say_with_time, surviving_closed_output
from counterpoise.app.verbs.rules import moves_of
from counterpoise.decide.advice.plan import AdvisedPlan, PlanError
from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.approved import ApprovedOptions, ApprovedPlan, CarriedOut
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing
from counterpoise.pipeline.tables.location import open_location

EXIT_LEFT = 1


def run_plan(args: argparse.Namespace, rules: ApprovalRules) -> int:
    """Check an approved plan against the cluster, and carry it out with ``--execute``."""
    plan = _read(args.plan)
    return report_outcome(args, plan, asyncio.run(_carry_out(args, plan, rules)))


def _read(path: Path) -> AdvisedPlan:
    try:
        return AdvisedPlan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"--plan {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"--plan {path}: the file is not JSON: {error}") from None
    except PlanError as error:
        raise UserError(f"--plan {path}: {error}") from None


async def _carry_out(
    args: argparse.Namespace, plan: AdvisedPlan, rules: ApprovalRules
) -> CarriedOut:
    options = ApprovedOptions(
        execute=args.execute,
        valid_for_s=args.valid_for,
        partial=args.partial,
        rules=rules,
        moves=moves_of(args),
    )
    waits = HeartbeatOptions(wait_s=args.wait_for_history)
    history = writing(open_location(args.history), waits)
    say = surviving_closed_output(say_with_time)
    async with history as writer, client_session(args) as session:
        approved = ApprovedPlan(
            session, admin_urls(args.admin_url), writer, plan, wall_clock_ms, say, options
        )
        return await approved.carry_out()


def report_outcome(args: argparse.Namespace, plan: AdvisedPlan, came: CarriedOut) -> int:
    """Print the result of a plan, and return the exit status."""
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
