"""Reads one ledger without recovering it: its entries, and the end of an open one."""

import asyncio
from dataclasses import dataclass

from counterpoise.bookkeeper import errors
from counterpoise.bookkeeper.bookie_frames import LAST_ENTRY
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.stored_entry import EntryDigest, StoredEntry


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """Where a ledger ends: its last stored and its last confirmed entry; -1 if it has none."""

    last_stored: int
    """The last entry that a bookie has."""
    last_confirmed: int
    """The last entry that is known to be acknowledged, because a later entry confirms it: the last
    one of a closed ledger; of an open one, usually the last but one."""
    length: int
    """Bytes of all payloads up to ``last_stored``."""


async def read_entry(bookies: Bookies, ledger: LedgerMetadata, entry: int) -> StoredEntry:
    """One entry, from the first bookie of its write set that returns it undamaged.

    If a bookie fails, has none, or returns a damaged one, the next is asked at once; after a slow
    one, after ``speculative_s``. Raises `EntryUnreadable`.
    """
    digest = EntryDigest(ledger.digest, ledger.password)
    left = bookies.in_order(ledger.write_set(entry))
    asked: dict[asyncio.Task[bytes], str] = {}
    reasons: list[str] = []
    lost = True
    try:
        while left or asked:
            if left:
                bookie = left.pop(0)
                asked[asyncio.create_task(bookies.read(bookie, ledger.ledger, entry))] = bookie
            done, _ = await asyncio.wait(
                asked,
                timeout=bookies.options.speculative_s if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                for slow in asked.values():
                    bookies.avoid(slow)
            for task in done:
                bookie = asked.pop(task)
                try:
                    return digest.open(ledger.ledger, entry, task.result())
                except errors.BadStoredEntry as error:
                    reasons.append(f"bookie {bookie}: {error}")
                except errors.BookieError as error:
                    reasons.append(str(error))
                    lost = lost and isinstance(error, errors.MissingEntry)
    finally:
        for task in asked:
            task.cancel()
    raise errors.EntryUnreadable(ledger.ledger, entry, reasons, lost=lost)


async def ledger_end(bookies: Bookies, ledger: LedgerMetadata) -> LedgerEnd:
    """The end of a ledger: by its metadata if it is closed, else by what bookies have of it.

    Asks every bookie of the last segment except those that failed recently, and uses the responses
    that arrive. Raises `EntryUnreadable` if none does.
    """
    if ledger.closed:
        return LedgerEnd(ledger.last_entry, ledger.last_entry, ledger.length)
    segment = ledger.segments[-1]
    ensemble = list(dict.fromkeys(segment.ensemble))
    asked = [each for each in ensemble if not bookies.is_avoided(each)] or ensemble
    found, silent = await _last_entries(bookies, ledger, asked)
    if len(silent) == len(asked):
        raise errors.EntryUnreadable(ledger.ledger, segment.first, silent, lost=False)
    last = max(found, key=lambda each: each.entry, default=None)
    # Segments before the last are final.
    confirmed = max([segment.first - 1, *(each.last_confirmed for each in found)])
    if last is None or last.entry < segment.first:
        if segment.first == 0:
            return LedgerEnd(-1, -1, 0)
        last = await read_entry(bookies, ledger, segment.first - 1)
    return LedgerEnd(last.entry, confirmed, last.length)


async def _last_entries(
    bookies: Bookies, ledger: LedgerMetadata, asked: list[str]
) -> tuple[list[StoredEntry], list[str]]:
    """The last entry that each bookie has, and the errors of those that could not be asked."""
    digest = EntryDigest(ledger.digest, ledger.password)

    async def last_of(bookie: str) -> StoredEntry | str | None:
        try:
            async with asyncio.timeout(bookies.options.speculative_s):
                stored = await bookies.read(bookie, ledger.ledger, LAST_ENTRY)
            return digest.open(ledger.ledger, None, stored)
        except errors.MissingEntry:
            return None
        except TimeoutError:
            bookies.avoid(bookie)
            return f"bookie {bookie}: no answer within {bookies.options.speculative_s:g} s"
        except (errors.BookieError, errors.BadStoredEntry) as error:
            return str(error)

    answers = await asyncio.gather(*(last_of(bookie) for bookie in asked))
    found = [each for each in answers if isinstance(each, StoredEntry)]
    return found, [each for each in answers if isinstance(each, str)]
