"""Faults of what is stored, and of the topics above it."""

from tests.mutants.fault import Fault

_FAULTS_OF_DISKS = "tests/storage/test_faults.py"
_WHAT_THE_DISK_HAS = "tests/storage/test_what_the_disk_has.py"
_RECOVERY = "tests/storage/test_recovery.py"
_DAMAGE = "tests/storage/test_ledger_damage.py"
_WRITES = "tests/storage/test_ledger_writes.py"

IN_STORAGE: tuple[Fault, ...] = (
    Fault(
        "the fence is looked at before the write instead of after it",
        "storage/files/jobs.py",
        """            self._offset = self._file.write(self._pieces)
        except FileNotFoundError""",
        """            if not self._log.fence.holds():
                raise FileNotFoundError
            self._offset = self._file.write(self._pieces)
            self._log.fence.holds = lambda: True
        except FileNotFoundError""",
        f"{_WHAT_THE_DISK_HAS}::test_an_acknowledgement_is_given_after_the_last_look_at_the_fence",
    ),
    Fault(
        "recovery reads first and fences afterwards",
        "storage/files/recovery.py",
        "    claimed = fence.claim(directory, owner, disk, last, released)\n",
        """    early = survey(directory, disk)
    claimed = fence.claim(directory, owner, disk, last, released)
""",
        f"{_WHAT_THE_DISK_HAS}::test_a_successor_fences_before_it_reads_anything",
    ),
    Fault(
        "a saved state is never synced",
        "storage/files/state.py",
        """        disk.sync(descriptor)
    finally""",
        """        pass
    finally""",
        f"{_WHAT_THE_DISK_HAS}::test_everything_that_decides_what_is_stored_is_synced",
    ),
    Fault(
        "the name of a new state is never synced",
        "storage/files/state.py",
        "            self._disk.sync_directory(self._directory)\n",
        "            pass\n",
        f"{_WHAT_THE_DISK_HAS}::test_everything_that_decides_what_is_stored_is_synced",
    ),
    Fault(
        "the name of a new ledger is never synced",
        "storage/files/ledger.py",
        "        self._disk.sync_directory(self.path.parent)\n",
        "",
        f"{_WHAT_THE_DISK_HAS}::test_everything_that_decides_what_is_stored_is_synced",
    ),
    Fault(
        "a large write is not synced",
        "storage/files/ledger.py",
        "            self._disk.sync(self._descriptor)\n        if size",
        "            pass\n        if size",
        f"{_WRITES}::test_a_write_returns_when_all_of_it_is_synced",
    ),
    Fault(
        "a raised fence is not synced",
        "storage/files/fence.py",
        "        if released is None or epoch != released + 1:\n            disk.sync(descriptor)\n",
        "",
        f"{_WHAT_THE_DISK_HAS}::test_a_successor_fences_before_it_reads_anything",
    ),
    Fault(
        "the first acknowledgement does not wait for the state",
        "storage/files/log.py",
        "        if not self._settled.done():\n",
        "        if False:\n",
        f"{_WHAT_THE_DISK_HAS}::test_nothing_is_acknowledged_before_the_disk_has_all_of_it",
    ),
    Fault(
        "an owner that closes waits for the disk",
        "storage/files/store.py",
        "        if copy is None or self._may_be_unfinished.acquire(blocking=False):\n",
        "        if copy is None or copy.settle():\n",
        f"{_WHAT_THE_DISK_HAS}::test_a_hand_over_waits_for_a_slow_disk_once",
    ),
    Fault(
        "a new owner syncs one thing after the other",
        "storage/files/log.py",
        """            await asyncio.gather(
                store.beside(recovered.states.settle),
                store.beside(recovered.names_settle, directory, store.disk),
            )
""",
        """            await store.beside(recovered.states.settle)
            await store.beside(recovered.names_settle, directory, store.disk)
""",
        f"{_WHAT_THE_DISK_HAS}::test_a_hand_over_waits_for_a_slow_disk_once",
    ),
    Fault(
        "what was left unfinished is taken for all there is",
        "storage/files/recovery.py",
        "            return loaded.state, tuple(unreadable), loaded.closed\n",
        "            return loaded.state, tuple(unreadable), True\n",
        _RECOVERY,
    ),
    Fault(
        "after a failed write the next one begins without closing the ledger for good",
        "storage/files/log.py",
        "        seal = self._sealed() if self._broken else None\n",
        "        seal = None\n",
        f"{_FAULTS_OF_DISKS}::test_a_failed_write_fails_its_callers_and_the_log_goes_on",
    ),
    Fault(
        "after a failed write the same ledger is written again",
        "storage/files/log.py",
        "        if not (self._broken or full):\n",
        "        if not full:\n",
        f"{_FAULTS_OF_DISKS}::test_a_failed_write_fails_its_callers_and_the_log_goes_on",
    ),
    Fault(
        "what waits behind a failed write is stored before it",
        "storage/grouplog.py",
        "        waiting += self._gathering.contexts\n        self._submitted.clear()\n        self._gathering, self._is_late = EntryGroup(), False\n",
        "        self._submitted.clear()\n",
        f"{_FAULTS_OF_DISKS}::test_what_waits_behind_a_failed_write_is_not_stored_before_it",
    ),
    Fault(
        "deleted ledgers stay in the older copy of the state",
        "storage/files/log.py",
        "copies=2 if trimmed else copies",
        "copies=1",
        f"{_WHAT_THE_DISK_HAS}::test_deleted_ledgers_are_in_no_copy_of_the_state",
    ),
    Fault(
        "a close waits for ever",
        "storage/grouplog.py",
        "            async with asyncio.timeout(self.close_seconds):\n",
        "            async with asyncio.timeout(None):\n",
        f"{_FAULTS_OF_DISKS}::test_closing_waits_for_a_silent_disk_only_so_long",
    ),
    Fault(
        "behind a damaged record nothing is looked for",
        "storage/files/walk.py",
        "            if self.offset == base and not self._find_again(base + 1):\n",
        "            if self.offset == base:\n",
        f"{_DAMAGE}::test_a_damaged_byte_costs_the_record_it_lies_in_and_no_other",
    ),
    Fault(
        "a length is believed while entries are looked for",
        "storage/files/ledger.py",
        """            if kind.entry_id(data, offset - base) != next_id:
                return place
""",
        """            if kind.entry_id(data, offset - base) != next_id:
                return Place(next_id, offset)
""",
        f"{_DAMAGE}::test_a_wrong_length_does_not_lead_past_sound_records",
    ),
    Fault(
        "what a record says of its predecessors is not heeded",
        "storage/files/ledger.py",
        "                stored = max(stored, record.stored)\n",
        "",
        f"{_DAMAGE}::test_a_hole_in_the_group_that_was_being_written_keeps_what_is_sound",
    ),
    Fault(
        "subscriptions wait for what is lost",
        "broker/topic/persistent.py",
        "            subscription.pass_over([lost])\n",
        "            pass\n",
        "tests/broker/topic/test_damage.py::test_a_seek_and_a_new_subscription_pass_over_what_is_lost",
    ),
    Fault(
        "without its cursor a subscription begins at the end",
        "broker/topic/lookback.py",
        "    if request.durable and log.cursors_lost:\n",
        "    if False:\n",
        "tests/broker/topic/test_damage.py::"
        "test_a_subscription_that_comes_back_without_its_cursor_sees_everything",
    ),
    Fault(
        "refused entries have no answer",
        "broker/topic/producer.py",
        "            self.sink.send_error(self.producer_id, sequence_id, error)\n",
        "            pass\n",
        "tests/broker/topic/test_disk_faults.py",
    ),
    Fault(
        "a dead session hears of what its death removed",
        "metadata/memory.py",
        "        if self._listeners and not self._lost:\n",
        "        if self._listeners:\n",
        "tests/metadata/test_sessions.py::test_a_dead_session_does_not_hear_what_its_death_removed",
    ),
    Fault(
        "metadata counts before it is in the file",
        "metadata/sqlite.py",
        '            await self._store(f"put {path}", self._statements(path, value, ephemeral=ephemeral))\n'
        "            version = self.write(session, path, value, expected, ephemeral=ephemeral)\n",
        "            changes = self._statements(path, value, ephemeral=ephemeral)\n"
        "            version = self.write(session, path, value, expected, ephemeral=ephemeral)\n"
        '            await self._store(f"put {path}", changes)\n',
        "tests/metadata/test_sqlite.py::test_a_disk_that_fails_changes_nothing",
    ),
    Fault(
        "an ephemeral node is kept in the file",
        "metadata/sqlite.py",
        "        if node is None and not ephemeral:\n",
        "        if node is None:\n",
        "tests/metadata/test_sqlite.py::test_what_is_stored_comes_back_and_ephemeral_nodes_do_not",
    ),
    Fault(
        "the ledger that is written outlives its log",
        "storage/managed/ledger_chain.py",
        " + [self.current.ledger_id]",
        "",
        "tests/storage/test_managed_takeover.py::test_a_deleted_log_leaves_no_ledger_of_its_own_or_of_its_cursors",
    ),
    Fault(
        "a cursor's ledger outlives its log",
        "storage/managed/cursor_keeper.py",
        "            await self._discard((stored.unused | {stored.node.ledger}) - {cursors.NO_LEDGER})",
        "            pass",
        "tests/storage/test_managed_takeover.py::test_a_deleted_log_leaves_no_ledger_of_its_own_or_of_its_cursors",
    ),
    Fault(
        "a ZooKeeper that is silent is waited for as long as a session lasts",
        "metadata/zk_handler.py",
        "min(timeout, answer_s) if alone else timeout",
        "timeout",
        "tests/metadata/test_sessions.py::test_a_server_that_accepts_and_is_silent_is_left_for_another_try",
    ),
    Fault(
        "a log whose ledgers cannot be closed is not released",
        "storage/managed/log.py",
        "asyncio.timeout(ABANDON_S)",
        "asyncio.timeout(None)",
        "tests/storage/test_managed_persistence.py::test_a_log_is_released_soon_although_its_ledgers_cannot_be_closed",
    ),
)
