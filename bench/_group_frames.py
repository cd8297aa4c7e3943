"""A resource group's limit over three brokers, used at any of them; one JSON object.

One flood for each broker. First the first two send as fast as they may, then the last two: the
group's limit has to be passed whole in both, some seconds after the change.
"""

import argparse
import json
import threading
import time
import uuid

from bench._admin import call
from bench._throttle_client import SLOTS_A_SECOND
from bench._throttle_frames import Clock, Flood, Wire, run

RATE = 900
SETTLES_S = 6
MEASURED_S = 6
BROKERS = 3


def topics_of(admin_url: str, namespace: str) -> dict[str, str]:
    """A topic for each broker, by the broker's address."""
    found: dict[str, str] = {}
    for number in range(200):
        topic = f"{namespace}/t{number}"
        url = call("GET", f"{admin_url}/lookup/v2/topic/persistent/{topic}")["brokerUrl"]
        found.setdefault(url, f"persistent://{topic}")
        if len(found) == BROKERS:
            break
    return found


def measure(admin_url: str) -> dict[str, object]:
    made = uuid.uuid4().hex[:8]
    namespace, group = f"public/group-{made}", f"group-{made}"
    admin = f"{admin_url}/admin/v2"
    call("PUT", f"{admin}/namespaces/{namespace}", {"bundles": {"numBundles": 12}})
    call("PUT", f"{admin}/resourcegroups/{group}", {"publishRateInMsgs": RATE})
    call("POST", f"{admin}/namespaces/{namespace}/resourcegroup/{group}")
    phase_s = SETTLES_S + MEASURED_S
    wires = [Wire(url, topic) for url, topic in topics_of(admin_url, namespace).items()]
    floods = []
    for wire in wires:
        flood = wire.floods[0] = Flood(0, 100, 1, 2 * phase_s * SLOTS_A_SECOND)
        floods.append(flood)
    clock = Clock()
    clock.began = time.perf_counter()
    floods[-1].resting = True

    def turn() -> None:
        floods[0].resting, floods[-1].resting = True, False

    threading.Timer(phase_s, turn).start()
    run(wires, clock, 2 * phase_s)
    passed = []
    for phase in (0, 1):
        begin = (phase * phase_s + SETTLES_S) * SLOTS_A_SECOND
        end = begin + MEASURED_S * SLOTS_A_SECOND
        passed.append([sum(each.acknowledged[begin:end]) / MEASURED_S for each in floods])
    return {"limit": RATE, "passed": passed}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--admin-url", required=True)
    print(json.dumps(measure(parser.parse_args().admin_url)), flush=True)


if __name__ == "__main__":
    main()
