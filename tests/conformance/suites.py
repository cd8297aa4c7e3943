"""Every suite by name."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.conformance import shrink
from tests.conformance.generators import placement
from tests.conformance.generators import splitting as splits
from tests.conformance.generators.bookkeeper import bookkeeper_case
from tests.conformance.generators.buckets import bucket_case
from tests.conformance.generators.channel import channel_case
from tests.conformance.generators.load import change_case, load_case, topk_case
from tests.conformance.generators.load_data import shedding_case
from tests.conformance.generators.names import names_case
from tests.conformance.generators.permits import permits_case
from tests.conformance.generators.racks import racks_case
from tests.conformance.generators.schemas import schemas_case
from tests.conformance.generators.selection import selection_case
from tests.conformance.generators.transfer import transfer_case
from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION
from tests.conformance.ours import bookkeeper as stored
from tests.conformance.ours import buckets as counting
from tests.conformance.ours import channel as channels
from tests.conformance.ours import load as loading
from tests.conformance.ours import names as naming
from tests.conformance.ours import permits as permitting
from tests.conformance.ours import placement as placing
from tests.conformance.ours import racks as spreading
from tests.conformance.ours import schemas as registering
from tests.conformance.ours import selection as selecting
from tests.conformance.ours import shedding, splitting
from tests.conformance.ours import topk as ranking
from tests.conformance.suite import Answer, Case, Suite, equal


def _per_line(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """The first line that differs; a key only Java has (its counters) is not compared."""
    if isinstance(ours, dict):
        return f"ours raised: {ours.get('raised')}"
    for number, (mine, reply) in enumerate(zip(ours, theirs, strict=True), 1):
        if _no_candidate(case, number, mine, reply):
            continue
        for key in mine:
            if mine[key] != reply.get(key):
                return f"line {number}, {key}: ours {mine[key]!r}, Java {reply.get(key, reply)!r}"
    return None


def _no_candidate(case: Case, number: int, mine: Any, reply: Any) -> bool:
    """AvgShedder's placement divides by the number of candidates, 0 included; ours answers none."""
    requests = case.get("requests")
    return (
        requests is not None
        and not requests[number - 1]["candidates"]
        and reply.get("throws") == "java.lang.ArithmeticException"
        and mine == {"admissible": []}
    )


def _lines_that_shed(answer: Any) -> int:
    return sum(bool(line.get("bundles") or line.get("decisions")) for line in answer)


def _shedding(strategy: str, floor: float, version: str = MAIN_VERSION) -> Suite:
    def generate(rng: Random) -> Case:
        return shedding_case(rng, strategy)

    return Suite(
        name=strategy,
        generate=generate,
        ours=shedding.shed,
        differ=_per_line,
        smaller=shrink.smaller_load_data,
        acted=_lines_that_shed,
        version=version,
        orders=True,
        floor=floor,
    )


def _admits(answer: Any) -> int:
    return sum(bool(request.get("admissible")) for request in answer)


def _placement(strategy: str, version: str = MAIN_VERSION) -> Suite:
    def generate(rng: Random) -> Case:
        return placement.modular_case(rng, strategy)

    return Suite(
        name=f"place/{strategy}",
        generate=generate,
        ours=placing.place,
        differ=_per_line,
        smaller=shrink.smaller_placement,
        acted=_admits,
        version=version,
        orders=True,
        floor=0.98,
        ours_first=True,
    )


def _cut_differs(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Positions are wanted: Java throws when there are none, ours says so and cuts nothing."""
    wanted = case["algorithm"] == "specified_positions_divide" and not case["boundaries"]
    if wanted and theirs.get("throws") == "java.lang.IllegalArgumentException":
        return None if ours == {"boundaries": []} else f"ours {ours!r}, Java throws"
    return equal(case, ours, theirs)


def _fields_differ(case: Case, ours: Answer, theirs: Answer) -> str | None:
    if "raised" in ours:
        return equal(case, ours, theirs)
    for key, reply in theirs.items():
        if ours[key] != reply:
            return f"{key}: ours {ours[key]!r}, Java {reply!r}"
    return None


def _names_differ(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Ours refuses on purpose what 4.0.7 still reads: names of Pulsar 1 (with a cluster), domains
    in capitals, empty parts of short names.
    """
    if "raised" in ours:
        return equal(case, ours, theirs)
    for text, mine, reply in zip(case["names"], ours["parsed"], theirs["parsed"], strict=True):
        if mine != reply and not (mine is None and _refused(text, reply)):
            return f"{text!r}: ours {mine!r}, Java {reply!r}"
    return _fields_differ(case, {**ours, "parsed": theirs["parsed"]}, theirs)


def _schemas_differ(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Which schemas are accepted, and why not; where Java fails by itself, only that it does."""
    if isinstance(ours, dict):
        return equal(case, ours, theirs)
    refusals = {"invalid", "incompatible"}
    same = [
        mine == reply or (reply == "refused" and mine in refusals)
        for mine, reply in zip(ours, theirs, strict=True)
    ]
    return None if all(same) else equal(case, ours, theirs)


def _refused(text: str, reply: Any) -> bool:
    domain, mark, _ = text.partition("://")
    if reply["namespace"].count("/") == 2:
        return True
    return domain != domain.lower() if mark else "" in text.split("/")


def _top_differs(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Bundles that rank alike may stand for each other; which do, Java's own compareTo says."""
    if "raised" in ours or ours["signs"] != theirs["signs"]:
        return f"ours {ours!r}, Java {theirs!r}"
    mine, reply = ours["top"], theirs["top"]
    alike = theirs["alike"]
    known = len(mine) == len(reply) == len(alike) and set(reply) <= set(case["stats"])
    if known and all(a == b or same for a, b, same in zip(mine, reply, alike, strict=True)):
        return None
    return f"ours {mine}, Java {reply}, alike {alike}"


def _load_differs(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Everything but the clock's reading; sets in any order."""
    if "raised" in ours:
        return equal(case, ours, theirs)
    for key in theirs:
        pairs = zip(_listed(ours[key]), _listed(theirs[key]), strict=True)
        for number, (mine, reply) in enumerate(pairs, 1):
            for field, value in sorted(reply.items()):
                if field in {"lastUpdate", "updatedAt", "startTimestamp"}:
                    continue
                if _plain(mine.get(field)) != _plain(value):
                    return f"{key} {number}, {field}: ours {mine.get(field)!r}, Java {value!r}"
    return None


def _plain(value: Any) -> Any:
    """NaN equals NaN here, however it is written, and the order of a list of names says nothing."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(value)
    return repr(float(value)) if isinstance(value, float) or value in _SPECIAL else value


_SPECIAL = ("NaN", "Infinity", "-Infinity")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _all() -> list[Suite]:
    return [
        _shedding("OverloadShedder", 0.8),
        _shedding("ThresholdShedder", 0.93),
        _shedding("UniformLoadShedder", 0.7),
        _shedding("AvgShedder", 0.65, AVG_SHEDDER_VERSION),
        Suite(
            name="TransferShedder",
            generate=transfer_case,
            ours=shedding.transfer,
            differ=_per_line,
            smaller=shrink.smaller_transfer,
            acted=_lines_that_shed,
            orders=True,
            floor=0.93,
        ),
        _placement("RoundRobinBrokerSelector"),
        _placement("LeastLongTermMessageRate"),
        _placement("LeastResourceUsageWithWeight"),
        _placement("AvgShedder", AVG_SHEDDER_VERSION),
        Suite(
            name="place/extensible",
            generate=placement.extensible_case,
            ours=placing.place,
            differ=_per_line,
            smaller=shrink.smaller_placement,
            acted=_admits,
        ),
        Suite(
            name="split/algorithms",
            generate=splits.algorithm_case,
            ours=splitting.cut,
            differ=_cut_differs,
            acted=lambda answer: bool(answer.get("boundaries")),
        ),
        Suite(
            name="split/modular",
            generate=splits.modular_case,
            ours=splitting.modular,
            acted=lambda answer: bool(answer),
        ),
        Suite(
            name="split/extensible",
            generate=splits.extensible_case,
            ours=splitting.extensible,
            differ=_per_line,
            acted=_lines_that_shed,
        ),
        Suite(name="load", generate=load_case, ours=loading.load, differ=_load_differs),
        Suite(
            name="report-change",
            generate=change_case,
            ours=loading.change,
            acted=lambda answer: answer["needed"],
        ),
        Suite(
            name="topk",
            generate=topk_case,
            ours=ranking.top,
            differ=_top_differs,
            acted=lambda answer: bool(answer["top"]),
            ours_first=True,
        ),
        Suite(
            name="filters",
            generate=selection_case,
            ours=selecting.select,
            differ=_fields_differ,
            acted=lambda answer: answer["broker"] is not None,
        ),
        Suite(
            name="channel",
            generate=channel_case,
            ours=channels.channel,
            differ=_per_line,
            acted=lambda answer: sum(line["counts"] for line in answer),
        ),
        Suite(
            name="bucket",
            generate=bucket_case,
            ours=counting.bucket,
            smaller=shrink.fewer_lines,
            acted=lambda answer: len(answer["answers"]),
        ),
        Suite(
            name="bookkeeper",
            generate=bookkeeper_case,
            ours=stored.bookkeeper,
            differ=stored.misread,
        ),
        Suite(
            name="racks",
            generate=racks_case,
            ours=spreading.racks,
            acted=lambda answer: True in answer["adheres"],
            ours_first=True,
        ),
        Suite(
            name="schemas",
            generate=schemas_case,
            ours=registering.schemas,
            kept=400,
            differ=_schemas_differ,
            smaller=shrink.fewer_lines,
            acted=lambda answer: sum(each != 0 for each in answer),
        ),
        Suite(name="names", generate=names_case, ours=naming.names, differ=_names_differ),
        Suite(
            name="permits",
            generate=permits_case,
            ours=permitting.permits,
            smaller=shrink.fewer_lines,
            acted=lambda answer: sum(each is True for each in answer),
        ),
    ]


SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _all()}
