"""A judge: reads batches of cases on stdin, one JSON line each, and answers a line to each."""

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.conformance.jvm import java as jvm
from tests.conformance.jvm.java import Java, Json


def operations(java: Java) -> dict[str, Callable[[Json], Json]]:
    """What this judge can be asked, by name."""
    from tests.conformance.jvm.bookkeeper import BookKeeperBytes
    from tests.conformance.jvm.buckets import Buckets
    from tests.conformance.jvm.channel import Channel
    from tests.conformance.jvm.load import Load, ReportChange
    from tests.conformance.jvm.names import Names
    from tests.conformance.jvm.permits import Permits
    from tests.conformance.jvm.placement import ExtensiblePlacement, ModularPlacement
    from tests.conformance.jvm.racks import Racks
    from tests.conformance.jvm.schemas import Schemas
    from tests.conformance.jvm.selection import Selection
    from tests.conformance.jvm.services import BundleFactory
    from tests.conformance.jvm.shedding import ModularShedding
    from tests.conformance.jvm.splitting import Algorithms, ExtensibleStrategy, ModularTask
    from tests.conformance.jvm.timing import PlacementTime
    from tests.conformance.jvm.topk import TopBundles
    from tests.conformance.jvm.transfer import Transfer

    factory = BundleFactory(java)

    return {
        "shed": ModularShedding(java).answer,
        "transfer": Transfer(java, factory).answer,
        "place": ModularPlacement(java).answer,
        "place-extensible": ExtensiblePlacement(java).answer,
        "split-algorithm": Algorithms(java, factory).answer,
        "split-modular": ModularTask(java, factory).answer,
        "split-extensible": ExtensibleStrategy(java, factory).answer,
        "load": Load(java).answer,
        "select": Selection(java, factory).answer,
        "topk": TopBundles(java).answer,
        "placement-time": PlacementTime(java).answer,
        "report-change": ReportChange(java).answer,
        "bucket": Buckets(java).answer,
        "names": Names(java, factory).answer,
        "channel": Channel(java).answer,
        "permits": Permits(java).answer,
        "bookkeeper": BookKeeperBytes(java).answer,
        "racks": Racks(java).answer,
        "schemas": Schemas(java).answer,
    }


def main(lib: str) -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever Java or a library prints must not mix with the answers
    jvm.start(Path(lib))
    java = Java()
    known = operations(java)
    for request in sys.stdin:
        batch = json.loads(request)
        replies = []
        for case in batch:
            try:
                replies.append({"answer": known[case["op"]](case)})
            except BaseException as error:
                replies.append({"broken": f"{error!r}\n{traceback.format_exc()}"})
            java.release()
        answers.write(json.dumps(replies) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
