"""Decisions, rejections and outcomes as rows of the journal, and back."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from counterpoise.decide.balancing.basis import MoveBasis
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.pipeline.tables.schema import OUTCOME, JournalKind

PART = "partOfLoad"
"""Among a decision's figures: how much of the cluster's bytes/s its bundle carried."""
BASIS = "basis"
"""Among them: what the move rests on (`MoveBasis`)."""

_OF_REJECTION = ("subject", "rule", "value", "limit", "setting", "template")


def decision_row(move: Move) -> dict[str, Any]:
    """The row of a move that was decided."""
    decision = move.decision
    return {
        "kind": JournalKind.DECISION,
        "id": move.id,
        "action": decision.kind.value,
        "bundle": decision.bundle,
        "source": decision.source,
        "destination": move.destination,
        "reason": decision.reason,
        "sentence": decision.sentence,
        "template": decision.template,
        "figures": json.dumps(
            {**decision.figures, PART: move.part, BASIS: move.basis and move.basis.to_json()}
        ),
        "placement": move.placement,
    }


def move_of(row: Mapping[str, Any]) -> Move:
    """The move of a row."""
    figures = json.loads(row["figures"])
    part, written = figures.pop(PART, 0.0), figures.pop(BASIS, None)
    basis = MoveBasis.from_json(written) if written else None
    decision = Decision(
        kind=DecisionKind(row["action"]),
        bundle=row["bundle"],
        source=row["source"],
        destination=row["destination"] or None,
        reason=row["reason"],
        template=row["template"],
        figures=figures,
    )
    return Move(
        row["id"],
        row["poll_id"],
        decision,
        row["placement"],
        part,
        basis,
    )


def rejection_row(rejection: Rejection) -> dict[str, Any]:
    """The row of a rejection."""
    row = {name: getattr(rejection, name) for name in (*_OF_REJECTION, "sentence")}
    figures = json.dumps(dict(rejection.figures))
    return {"kind": JournalKind.REJECTION, **row, "figures": figures}


def rejection_of(row: Mapping[str, Any]) -> Rejection:
    """The rejection of a row."""
    figures = json.loads(row["figures"])
    return Rejection(**{name: row[name] for name in _OF_REJECTION}, figures=figures)


def outcome_row(outcome: MoveOutcome) -> dict[str, Any]:
    """The row of a move's outcome."""
    return {
        "kind": JournalKind.OUTCOME,
        **{name: getattr(outcome, name, None) for name in OUTCOME},
        "status": outcome.status.value,
        "started_at": outcome.started_at_ms,
        "ended_at": outcome.ended_at_ms,
    }


def outcome_of(row: Mapping[str, Any]) -> MoveOutcome:
    """The outcome of a row."""
    known = {each.name: row[each.name] for each in fields(MoveOutcome)}
    return MoveOutcome(**{**known, "status": MoveStatus(row["status"])})
