"""Faults of what is read of BookKeeper."""

from tests.mutants.fault import Fault

_CODECS = "tests/bookkeeper/test_codecs.py"
_READING = "tests/bookkeeper/test_ledger_reading.py"
_CURSORS = "tests/bookkeeper/test_cursors.py"
_ORPHANS = "tests/bookkeeper/test_orphans.py"
_HISTORIES = "tests/bookkeeper/test_ledger_histories.py"

IN_BOOKKEEPER: tuple[Fault, ...] = (
    Fault(
        "a read fences the ledger",
        "bookkeeper/bookie_frames.py",
        "_VERSION, READ, 0, ledger, entry)",
        "_VERSION, READ, 1, ledger, entry)",
        f"{_CODECS}::test_a_request_has_no_flag",
    ),
    Fault(
        "an entry is taken whatever its digest says",
        "bookkeeper/stored_entry.py",
        "if not hmac.compare_digest(self.of(header, payload), stored[HEADER.size : begin]):",
        "if False:",
        f"{_CODECS}::test_one_bit_anywhere_breaks_the_digest",
    ),
    Fault(
        "an entry of another place is taken",
        "bookkeeper/stored_entry.py",
        "if its_ledger != ledger or (entry is not None and its_entry != entry):",
        "if its_ledger != ledger:",
        f"{_READING}::test_the_next_bookie_is_asked_when_one_misbehaves",
    ),
    Fault(
        "a write set begins at the first bookie",
        "bookkeeper/ledger_metadata.py",
        "ensemble[(entry + step) % len(ensemble)]",
        "ensemble[step]",
        f"{_CODECS}::test_metadata_of_format_3",
    ),
    Fault(
        "silence counts as a loss",
        "bookkeeper/ledger_reading.py",
        "lost = lost and isinstance(error, errors.MissingEntry)",
        "lost = True",
        f"{_READING}::test_an_entry_is_lost_only_when_all_say_so_or_have_it_damaged",
    ),
    Fault(
        "a frame may have any size",
        "bookkeeper/bookie_frames.py",
        "        if _ANSWER_SIZE <= size <= self._frame_max:\n            return",
        "        if size >= 0:\n            return",
        f"{_CODECS}::test_a_frame_of_a_size_that_none_has_ends_the_connection",
    ),
    Fault(
        "a range of acknowledgements counts before the mark-delete position, too",
        "bookkeeper/cursors.py",
        "max(0, self.up_to(last) - max(self.up_to(before), marked))",
        "max(0, self.up_to(last) - self.up_to(before))",
        f"{_CURSORS}::test_a_backlog_is_what_is_left",
    ),
    Fault(
        "a candidate is not looked at again",
        "bookkeeper/orphans.py",
        "    if not again.unreferenced([ledger.ledger]):\n        return None\n",
        "",
        f"{_ORPHANS}::test_what_changes_between_two_looks_is_seen",
    ),
    Fault(
        "a ledger of another application can be an orphan",
        "bookkeeper/orphans.py",
        "    return application == ledger_owners.PULSAR\n",
        "    return True\n",
        f"{_ORPHANS}::test_ledgers_of_others_are_never_judged",
    ),
    Fault(
        "a topic whose list cannot be read refers to nothing",
        "bookkeeper/orphans.py",
        "    if owner.topic in unknown:\n",
        "    if False:\n",
        f"{_ORPHANS}::test_a_topic_whose_node_is_damaged_may_refer_to_anything",
    ),
    Fault(
        "the reads of a recovery do not fence",
        "bookkeeper/client/ledger_recovery.py",
        "request = fencing_read_request(self._metadata.ledger, entry, self._key)",
        'request = fencing_read_request(self._metadata.ledger, entry, self._key)\n        frame = request.frame[:6] + bytes(2) + request.frame[8:24]\n        request = request._replace(frame=(20).to_bytes(4, "big") + frame[4:])',
        f"{_HISTORIES}::test_the_order_of_bookkeepers_issue_2614",
    ),
    Fault(
        "an ack quorum of fenced bookies is enough",
        "bookkeeper/client/ledger_recovery.py",
        "if self._writer_is_fenced():",
        "if len(self._answered) >= self._metadata.ack_quorum:",
        f"{_HISTORIES}::test_bookies_are_fenced_until_no_ack_quorum_is_left_in_any_write_set",
    ),
    Fault(
        "entries are acknowledged while a failed bookie waits to be replaced",
        "bookkeeper/client/pending_adds.py",
        "        if self._failed:\n            return\n        last =",
        "        last =",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "what a failed bookie had counts after its replacement",
        "bookkeeper/client/pending_adds.py",
        "                    pending.stored_at &= ~(1 << place)\n",
        "",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "entries are acknowledged out of order",
        "bookkeeper/client/pending_adds.py",
        "        pending.stored_at |= 1 << place\n",
        "        pending.stored_at |= 1 << place\n        if pending.stored_at.bit_count() >= self._ack_quorum:\n            self.last_confirmed = max(self.last_confirmed, entry - 1)\n",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "a silent bookie counts as one without the entry",
        "bookkeeper/client/ledger_recovery.py",
        "            self._after_read()\n\n    def _after_read",
        "            self._answered.add(bookie)\n            self._after_read()\n\n    def _after_read",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "metadata is written whatever its version",
        "bookkeeper/client/metadata_changes.py",
        "yield VersionedMetadata(changed, known.version)",
        "yield VersionedMetadata(changed, None)  # type: ignore[arg-type]",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "an entry that a recovery found is not written again",
        "bookkeeper/client/ledger_recovery.py",
        "            self._write(stored)\n",
        "            self._last, self._length = self._entry, stored.length\n            self._read(self._entry + 1)\n",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "a closed ledger does not name the bookies that its recovery wrote to",
        "bookkeeper/client/ledger_recovery.py",
        "RecoveredEnd(self._last, length, self._replaced)",
        "RecoveredEnd(self._last, length, ())",
        f"{_HISTORIES}::test_no_history_loses_an_acknowledged_entry_or_has_two_ends",
    ),
    Fault(
        "a write quorum may be larger than the ensemble",
        "bookkeeper/quorums.py",
        "if not 1 <= self.ack <= self.write <= self.ensemble:",
        "if not 1 <= self.ack <= self.ensemble:",
        "tests/bookkeeper/test_ledger_client.py::test_sizes_that_contradict_each_other_are_refused",
    ),
    Fault(
        "a store that is away ends a deletion with an error of its own",
        "bookkeeper/client/ledger_client.py",
        "            await self._nodes.delete(ledger)\n        except MetadataError as error:",
        "            await self._nodes.delete(ledger)\n        except ZeroDivisionError as error:",
        "tests/bookkeeper/test_ledger_metadata_faults.py::test_a_store_that_is_away_is_an_error_of_bookkeepers_and_of_its_time",
    ),
    Fault(
        "the largest entry that bookies take is refused",
        "bookkeeper/client/ledger_writer.py",
        "max(map(len, payloads))) > self._payload_max:",
        "max(map(len, payloads))) >= self._payload_max:",
        "tests/bookkeeper/test_ledger_metadata_faults.py::test_an_entry_that_no_bookie_takes_is_refused_and_the_ledger_goes_on",
    ),
    Fault(
        "a bookie that answers with errors gets the next ledgers, too",
        "bookkeeper/client/ledger_writer.py",
        "            if answer.code != OK:\n                self._bookies.avoid(bookie)\n",
        "            if answer.code != OK:\n",
        "tests/bookkeeper/test_ledger_client.py::test_a_bookie_that_fails_is_replaced",
    ),
    Fault(
        "a bookie that refuses a certificate is asked for a handshake by each entry",
        "bookkeeper/bookies.py",
        "if asyncio.get_running_loop().time() < until:",
        "if False:",
        "tests/bookkeeper/test_start_tls.py::test_many_entries_take_one_handshake_of_each_bookie",
    ),
)
