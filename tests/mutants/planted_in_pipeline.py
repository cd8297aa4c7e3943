"""Faults of the balancer: what it keeps, averages, and does."""

from __future__ import annotations

from tests.mutants.fault import Fault

_DURABLE = "tests/pipeline/test_durable.py"
_SURVIVES = f"{_DURABLE}::test_a_file_and_every_directory_above_it_survive"
_SHARDS = "tests/pipeline/test_fold_of_shards.py"
_EXECUTOR = "tests/pipeline/test_executor.py"
_BALANCER = "tests/pipeline/test_balancer.py"

IN_PIPELINE: tuple[Fault, ...] = (
    Fault(
        "landed files, rounds and the stream's states are never synced",
        "pipeline/history/disk.py",
        "        os.fsync(file.fileno())\n",
        "",
        f"{_DURABLE}::test_the_kernel_is_asked_for_both_the_file_and_its_name",
    ),
    Fault(
        "the bytes of a history's files are never asked to be synced",
        "pipeline/history/disk.py",
        "                self.sync(file)\n",
        "",
        _SURVIVES,
        quick=True,
    ),
    Fault(
        "files are synced before they are flushed",
        "pipeline/history/disk.py",
        "                file.flush()\n                self.sync(file)\n",
        "                self.sync(file)\n                file.flush()\n",
        _SURVIVES,
    ),
    Fault(
        "the name of a history's file is never synced",
        "pipeline/history/disk.py",
        "            hidden.unlink(missing_ok=True)\n        self.sync_directory(path.parent)\n",
        "            hidden.unlink(missing_ok=True)\n",
        _SURVIVES,
    ),
    Fault(
        "the name of a new day's directory is never synced",
        "pipeline/history/disk.py",
        "        self.make_directory(path)\n        self.sync_directory(path.parent)\n",
        "        self.make_directory(path)\n",
        _SURVIVES,
    ),
    Fault(
        "a state is written under its own name",
        "pipeline/history/disk.py",
        '        hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")\n',
        "        hidden = path\n",
        _DURABLE,
    ),
    Fault(
        "small files go before the one that replaces them is there",
        "pipeline/history/compaction.py",
        "                    held = []\n    for name in names:\n        store.delete(name)\n",
        "                    held = []\n        for name in names:\n            store.delete(name)\n",
        f"{_DURABLE}::test_small_files_go_when_the_one_that_replaces_them_survives",
    ),
    Fault(
        "the long average is over a hundred samples",
        "load/average.py",
        "LONG_TERM_SAMPLES: Final = 1000\n",
        "LONG_TERM_SAMPLES: Final = 100\n",
        "tests/load/test_fold.py::"
        "test_the_long_average_is_over_a_thousand_samples_and_the_short_one_over_ten",
    ),
    Fault(
        "the pipeline's long average is over a hundred samples",
        "pipeline/stream/fold.py",
        '        self._options = FoldOptions(**json.loads(options["fold"]))\n',
        '        self._options = FoldOptions(**{**json.loads(options["fold"]), "long_samples": 100})\n',
        f"{_SHARDS}::test_averages_over_more_than_a_hundred_samples_survive_every_state",
    ),
    Fault(
        "compaction archives what is not folded yet",
        "pipeline/history/compaction.py",
        "    small = [name for name in small if _first(name) <= up_to_poll]\n",
        "",
        f"{_SHARDS}::test_what_is_not_folded_yet_is_never_compacted",
    ),
    Fault(
        "the history is kept tidy up to whatever has landed",
        "pipeline/history/keeping.py",
        "                    up_to_poll=up_to_poll,\n",
        "                    up_to_poll=2**62,\n",
        f"{_SHARDS}::test_what_is_not_folded_yet_is_never_compacted",
    ),
    Fault(
        "a poll in a compacted file is folded a second time",
        "pipeline/stream/codec.py",
        "            table = group.filter(pc.greater(polls, after)) if older else group\n",
        "            table = group\n",
        f"{_SHARDS}::test_a_micro_batch_that_is_repeated_after_a_compaction_gives_the_same",
    ),
    Fault(
        "the executor asks brokers what they own while they take bundles over",
        "pipeline/bundle_lookup.py",
        "        if is_left_in_place(namespace):\n",
        "        await self._ownership.listed([broker])\n        if is_left_in_place(namespace):\n",
        f"{_EXECUTOR}::test_no_broker_that_takes_bundles_over_is_asked_what_it_owns",
    ),
    Fault(
        "a broker filters the topics of a namespace by bundle",
        "pipeline/topic_lists.py",
        '        url = f"{address}/admin/v2/persistent/{namespace}"\n',
        '        url = f"{address}/admin/v2/persistent/{namespace}?bundle=0x00000000_0x10000000"\n',
        f"{_EXECUTOR}::"
        "test_where_clients_may_create_no_topics_one_list_of_topics_serves_all_bundles",
    ),
    Fault(
        "a broker that serves no lookups is a destination",
        "pipeline/collect/collector.py",
        "            if not await serving:\n",
        "            if not await serving and False:\n",
        "tests/pipeline/test_balancer.py::"
        "test_no_round_moves_anything_to_a_broker_that_serves_no_lookups",
    ),
    Fault(
        "the executor moves bundles of the system namespace",
        "pipeline/executor.py",
        "        if is_left_in_place(namespace := namespace_of(move.bundle)):\n",
        "        if False and (namespace := namespace_of(move.bundle)):\n",
        f"{_EXECUTOR}::test_a_system_bundle_is_neither_moved_nor_looked_up_by_any_plan",
    ),
    Fault(
        "the executor asks the releasing broker for the lookup",
        "pipeline/executor.py",
        "            move.destination or move.source,\n",
        "            move.source,\n",
        f"{_EXECUTOR}::test_an_unloaded_bundle_is_looked_up_where_it_is_to_go",
    ),
    Fault(
        "a lookup that brings a bundle to its destination leaves the choice to the leader",
        "pipeline/bundle_lookup.py",
        '        asks = "?authoritative=true" if takes else ""\n',
        '        asks = ""\n',
        f"{_EXECUTOR}::test_a_destination_that_another_lookup_would_lose_takes_the_bundle",
    ),
    Fault(
        "the executor believes a 204",
        "pipeline/executor.py",
        "                return await self._verify(move, brokers)\n",
        "                return Status.MOVED, move.destination or move.source\n",
        f"{_EXECUTOR}::test_an_unload_that_changes_nothing_is_a_failure",
    ),
    Fault(
        "what a rule withholds is logged in every round",
        "pipeline/rounds.py",
        "                if key in self.withheld:\n                    return\n",
        "",
        f"{_BALANCER}::test_what_is_withheld_round_after_round_is_said_once",
    ),
    Fault(
        "load that was moved before does not count against the hour's limit",
        "decide/balancing/approval.py",
        "part, part_lately = 0.0, sum(each.part for each in lately)",
        "part, part_lately = 0.0, 0.0",
        "tests/decide/balancing/test_approval.py::"
        "test_so_much_load_an_hour_that_of_before_included",
    ),
    Fault(
        "a refill gives a broker more than the mean first",
        "decide/balancing/refill.py",
        "(*range(place - 1, -1, -1), *range(place, len(bundles)))",
        "(*range(place, len(bundles)), *range(place - 1, -1, -1))",
        "tests/decide/balancing/test_refill.py::"
        "test_few_and_large_bundles_move_and_the_same_ones_each_time",
    ),
    Fault(
        "a round is decided without policies",
        "pipeline/balancer.py",
        "decide(state, memory, self._strategy, policies)",
        "decide(state, memory, self._strategy)",
        "tests/pipeline/test_policies.py::test_a_round_heeds_the_policies_of_its_moment",
    ),
    Fault(
        "a bundle goes wherever the strategy chose, whatever policies say",
        "decide/balancing/destination.py",
        "            chooser = replace(chooser, strategy=Only(wanted, ASKED))\n",
        '            return Placement(wanted, (wanted,), "asked", ASKED, memory)\n',
        "tests/decide/balancing/test_policies.py::"
        "test_a_destination_that_the_strategy_chose_is_held_against_the_policies",
    ),
    Fault(
        "Pulsar's leader does not let a bundle's own broker compete",
        "decide/balancing/as_leader.py",
        "if broker in answering],",
        "if broker in answering and broker != decision.source],",
        "tests/decide/balancing/test_as_leader.py::"
        "test_the_bundles_own_broker_competes_and_then_the_bundle_stays",
    ),
    Fault(
        "one's own strategies are not brought to executors",
        "pipeline/spark/code.py",
        "    if not files:\n",
        "    if files is not None:\n",
        "tests/pipeline/spark/test_code.py::"
        "test_a_strategy_comes_with_what_it_imported_from_beside_it",
    ),
)
