"""Ledgers made and read by BookKeeper's Java client: `python -m tests.real.java_ledgers LIB ZK`.

Each line of standard input is a JSON object. To make a ledger: `custom` (a text for each key),
`entries` (texts), `close`; the answer is one line of JSON: `ledger`. To read one: `read` (its id)
and `recover`, which ends it for its writer; the answer has `entries` (how many), `length`, and
`sha256` of all payloads with their lengths.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from jpype import JClass, JString

from tests.conformance.jvm import java as jvm


def read(client: Any, digest: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What Java finds in a ledger, with recovery or without."""
    opens = client.openLedger if request["recover"] else client.openLedgerNoRecovery
    handle = opens(request["read"], digest, JString("").getBytes("UTF-8"))
    last, total = int(handle.getLastAddConfirmed()), hashlib.sha256()
    for first in range(0, last + 1, 1000):
        entries = handle.readEntries(first, min(first + 999, last))
        while entries.hasMoreElements():
            payload = bytes(entries.nextElement().getEntry())
            total.update(payload_mark(payload))
    length = int(handle.getLength())
    handle.close()
    return {"entries": last + 1, "length": length, "sha256": total.hexdigest()}


def payload_mark(payload: bytes) -> bytes:
    """A payload so that two of them cannot be taken for one."""
    return len(payload).to_bytes(4, "big") + payload


def main(lib: str, zookeeper: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    jvm.start(Path(lib))
    conf = JClass("org.apache.bookkeeper.conf.ClientConfiguration")()
    conf.setMetadataServiceUri(f"zk+hierarchical://{zookeeper}/ledgers")
    client = JClass("org.apache.bookkeeper.client.BookKeeper")(conf)
    digest = JClass("org.apache.bookkeeper.client.BookKeeper$DigestType").CRC32C
    for line in sys.stdin:
        request = json.loads(line)
        if "read" in request:
            answers.write(json.dumps(read(client, digest, request)) + "\n")
            answers.flush()
            continue
        custom = JClass("java.util.HashMap")()
        for key, value in request["custom"].items():
            custom.put(key, JString(value).getBytes("UTF-8"))
        handle = client.createLedger(1, 1, 1, digest, JString("").getBytes("UTF-8"), custom)
        for text in request["entries"]:
            handle.addEntry(JString(text).getBytes("UTF-8"))
        if request["close"]:
            handle.close()
        answers.write(json.dumps({"ledger": int(handle.getId())}) + "\n")
        answers.flush()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
