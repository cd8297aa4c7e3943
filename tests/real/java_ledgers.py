"""Ledgers made by BookKeeper's own client for Java: `python -m tests.real.java_ledgers LIB ZK`.

Each line of standard input is a JSON object: `custom` (a text for each key), `entries` (texts),
`close`. The answer is one line of JSON: `ledger`.
"""

import json
import sys
from pathlib import Path

from jpype import JClass, JString

from tests.conformance.jvm import java as jvm


def main(lib: str, zookeeper: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    jvm.start(Path(lib))
    conf = JClass("org.apache.bookkeeper.conf.ClientConfiguration")()
    conf.setMetadataServiceUri(f"zk+hierarchical://{zookeeper}/ledgers")
    client = JClass("org.apache.bookkeeper.client.BookKeeper")(conf)
    digest = JClass("org.apache.bookkeeper.client.BookKeeper$DigestType").CRC32C
    for line in sys.stdin:
        request = json.loads(line)
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
