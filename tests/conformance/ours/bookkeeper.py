"""What we read in the bytes that Java wrote."""

from typing import Any

from counterpoise.bookkeeper.bookie_frames import add_request, fencing_read_request
from counterpoise.bookkeeper.cursors import CursorPositions, parse_cursor_node, parse_positions
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import (
    DigestType,
    read_ledger_metadata,
    write_ledger_metadata,
)
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.bookkeeper.managed_ledgers import parse_managed_ledger
from counterpoise.bookkeeper.stored_entry import EntryDigest, master_key
from tests.conformance.suite import Answer, Case


def bookkeeper(case: Case) -> Answer:
    """Where the ledger lies; the rest can be read once Java has written it."""
    return {"path": ledger_path("", case["ledger"]["id"])}


def misread(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """What we read differently from what Java was given to write, or None."""
    if ours.get("path") != theirs["path"]:
        return f"ours {ours!r}, Java {theirs['path']!r}"
    try:
        read, wanted = _read(case, theirs), _wanted(case, theirs)
    except (BookKeeperError, ValueError, IndexError) as error:
        return f"we cannot read it: {error}"
    for key, value in wanted.items():
        if read[key] != value:
            return f"{key}: we read {read[key]!r}, written was {value!r}"
    return None


def _read(case: Case, theirs: Answer) -> dict[str, Any]:
    return {
        "ledger": _ledger(case, theirs),
        "written": _written(case, theirs),
        "adds": _adds(case),
        "fencing reads": _fencing_reads(case),
        "stored": _stored(case, theirs),
        "managed": _managed(theirs["managed"]),
        "cursor": _cursor(theirs["cursor"]),
        "positions": _positions(parse_positions("", bytes.fromhex(theirs["positions"]))),
        "bits": _bits(parse_positions("", bytes.fromhex(theirs["bits"]))),
    }


def _wanted(case: Case, theirs: Answer) -> dict[str, Any]:
    ledger, managed, cursor = case["ledger"], case["managed"], case["cursor"]
    closed = ledger["state"] == "CLOSED"
    inside = cursor["in"]
    ranges = [[(inside, before), (inside, last)] for before, last in cursor["ranges"]]
    positions = [tuple(cursor["mark"]), ranges, sorted(cursor["numbers"].items())]
    return {
        "ledger": {
            **{key: ledger[key] for key in ("ensemble", "write", "ack", "password", "state")},
            "digest": ledger["digest"].replace("MAC", "HMAC"),
            "segments": ledger["segments"],
            "token": ledger["token"] if ledger["format"] == 3 else 0,
            "last": ledger["last"] if closed else -1,
            "length": ledger["length"] if closed else 0,
            "created": ledger["created"],
            "custom": ledger["custom"],
            "sets": [
                [_ensemble(ledger, entry)[at] for at in members]
                for entry, members in zip(case["reads"], theirs["sets"], strict=True)
            ],
        },
        "written": theirs["metadata"] if ledger["format"] == 3 else "",
        "adds": theirs["adds"],
        "fencing reads": theirs["fencing reads"],
        "stored": [
            {key: value for key, value in each.items() if key != "recovery"}
            for each in case["entries"]
        ],
        "managed": [managed["ledgers"], managed["terminated"]],
        "cursor": [cursor["ledger"], positions, sorted(cursor["texts"].items())],
        "positions": positions,
        "bits": [
            tuple(cursor["mark"]),
            sorted({e for before, last in cursor["ranges"] for e in range(before + 1, last + 1)}),
        ],
    }


def _ensemble(ledger: dict[str, Any], entry: int) -> list[str]:
    names: list[str] = [members for first, members in ledger["segments"] if first <= entry][-1]
    return names


def _ledger(case: Case, theirs: Answer) -> dict[str, Any]:
    number = case["ledger"]["id"]
    found = read_ledger_metadata(number, theirs["path"], bytes.fromhex(theirs["metadata"]))
    return {
        "ensemble": found.ensemble_size,
        "write": found.write_quorum,
        "ack": found.ack_quorum,
        "digest": found.digest.name,
        "password": found.password.decode(),
        "segments": [[each.first, list(each.ensemble)] for each in found.segments],
        "state": found.state.name,
        "token": found.token,
        "last": found.last_entry,
        "length": found.length,
        "created": found.created_ms,
        "custom": {key: value.decode() for key, value in found.custom.items()},
        "sets": [list(found.write_set(entry)) for entry in case["reads"]],
    }


def _written(case: Case, theirs: Answer) -> str:
    """What we write of the ledger, which is the same as Java where Java writes format 3."""
    if case["ledger"]["format"] != 3:
        return ""
    number = case["ledger"]["id"]
    found = read_ledger_metadata(number, theirs["path"], bytes.fromhex(theirs["metadata"]))
    return write_ledger_metadata(found).hex()


def _adds(case: Case) -> list[str]:
    """The requests that add the entries."""
    number, password = case["ledger"]["id"], case["ledger"]["password"].encode()
    kind = DigestType[case["ledger"]["digest"].replace("MAC", "HMAC")]
    digest, key = EntryDigest(kind, password), master_key(password)
    requests = []
    for each in case["entries"]:
        entry, payload = each["entry"], bytes.fromhex(each["payload"])
        head = digest.head(number, entry, each["confirmed"], each["length"], payload)
        request = add_request(number, entry, key, head, payload, recovery=each["recovery"])
        requests.append(request.frame.hex())
    return requests


def _fencing_reads(case: Case) -> list[str]:
    """The requests of a recovery."""
    number, key = case["ledger"]["id"], master_key(case["ledger"]["password"].encode())
    entries = [-1, *case["reads"]]
    return [fencing_read_request(number, entry, key).frame.hex() for entry in entries]


def _stored(case: Case, theirs: Answer) -> list[dict[str, Any]]:
    number = case["ledger"]["id"]
    found = read_ledger_metadata(number, theirs["path"], bytes.fromhex(theirs["metadata"]))
    digest = EntryDigest(found.digest, found.password)
    opened = [
        digest.open(number, entry["entry"], bytes.fromhex(stored))
        for entry, stored in zip(case["entries"], theirs["stored"], strict=True)
    ]
    return [
        {
            "entry": each.entry,
            "confirmed": each.last_confirmed,
            "length": each.length,
            "payload": each.payload.hex(),
        }
        for each in opened
    ]


def _managed(written: str) -> list[Any]:
    found = parse_managed_ledger("x", bytes.fromhex(written))
    ledgers = [
        [each.ledger, each.entries, each.size, each.closed_ms, each.offloaded, each.deleted]
        for each in found.ledgers
    ]
    return [ledgers, None if found.terminated is None else list(found.terminated)]


def _cursor(written: str) -> list[Any]:
    found = parse_cursor_node("/managed-ledgers/x/sub", bytes.fromhex(written))
    return [found.ledger, _positions(found.positions), sorted(found.texts)]


def _positions(found: CursorPositions) -> list[Any]:
    ranges = [[tuple(before), tuple(last)] for before, last in found.ranges]
    return [tuple(found.mark_delete), ranges, sorted(found.numbers)]


def _bits(found: CursorPositions) -> list[Any]:
    entries = [
        64 * at + bit
        for _, words in found.bits
        for at, word in enumerate(words)
        for bit in range(64)
        if word >> bit & 1
    ]
    return [tuple(found.mark_delete), entries]
