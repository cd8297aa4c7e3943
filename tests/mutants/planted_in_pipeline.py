"""Faults of the balancer: what it keeps, averages, and does."""

from __future__ import annotations

from tests.mutants.fault import Fault

_SHARDS = "tests/pipeline/test_fold_of_shards.py"
_EXECUTOR = "tests/pipeline/test_executor.py"
_BALANCER = "tests/pipeline/test_balancer.py"
_KEEPER = "tests/pipeline/watch/test_history_keeper.py"
_MOVES_OF_A_ROLL = "tests/pipeline/drive/test_roll_moves.py"

IN_PIPELINE: tuple[Fault, ...] = (
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
        "    after = fold(before, rows)\n",
        "    from counterpoise.load.fold import FoldOptions\n"
        "    after = fold(before, rows, FoldOptions(long_samples=100))\n",
        f"{_SHARDS}::test_averages_over_more_than_a_hundred_samples_survive_every_state",
    ),
    Fault(
        "a batch takes in all that has landed, however much that is",
        "pipeline/stream/fold.py",
        "next_slice(self._writer, after, self._most_rows)",
        "next_slice(self._writer, after)",
        f"{_SHARDS}::test_a_batch_is_limited_by_rows_however_many_polls_have_landed",
    ),
    Fault(
        "each poll is a batch of its own",
        "pipeline/stream/fold.py",
        "max(after + self._every_ms, after + 1)",
        "after + 1",
        f"{_SHARDS}::test_polls_wait_for_each_other_until_a_batch_is_worth_it",
    ),
    Fault(
        "a poll in a compacted file is folded a second time",
        "pipeline/tables/reports.py",
        "            if file.first_poll <= part.after or file.last_poll > part.up_to:\n",
        "            if file.last_poll > part.up_to:\n",
        f"{_SHARDS}::test_however_batches_are_cut_lost_and_divided_each_poll_is_folded_once",
    ),
    Fault(
        "a writer's commits do not carry its epoch",
        "pipeline/tables/history.py",
        "        carried = {WRITER: self.epoch, **transactions}\n",
        "        carried = dict(transactions)\n",
        "tests/pipeline/tables/test_history.py::test_every_table_refuses_an_earlier_writer",
    ),
    Fault(
        "a writer that was refused reads on as if it still wrote",
        "pipeline/tables/history.py",
        "            self._expect_going_on()\n            # What is committed here is known",
        "            # What is committed here is known",
        f"{_SHARDS}::test_a_balancer_that_stood_still_while_another_took_over_commits_nothing",
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
        "            if fault := await serving:\n",
        "            if (fault := await serving) and False:\n",
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
        "            self._strategy,\n            policies,\n",
        "            self._strategy,\n",
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
    Fault(
        "a notice of an end by itself is one of an end that was asked for",
        "pipeline/watch/history_keeper.py",
        "str(error) or type(error).__name__, by_itself=True)",
        "str(error) or type(error).__name__, by_itself=False)",
        f"{_KEEPER}::test_whatever_ends_it_is_reported_at_once_and_leaves_nothing_behind",
    ),
    Fault(
        "a fault without words ends a balancer without a reason",
        "pipeline/watch/history_keeper.py",
        "str(error) or type(error).__name__,",
        "str(error),",
        f"{_KEEPER}::test_whatever_ends_it_is_reported_at_once_and_leaves_nothing_behind",
    ),
    Fault(
        "a stop from before the start ends a balancer",
        "pipeline/watch/history_keeper.py",
        ".stops(self._began_ms)",
        ".stops(0)",
        f"{_KEEPER}::test_it_goes_on_behind_the_newest_poll_and_heeds_no_order_from_before_its_start",
    ),
    Fault(
        "polls begin again behind a history whose clock was ahead",
        "pipeline/watch/history_keeper.py",
        "after_poll=last)",
        "after_poll=0)",
        f"{_KEEPER}::test_it_goes_on_behind_the_newest_poll_and_heeds_no_order_from_before_its_start",
    ),
    Fault(
        "a history is compacted by the defaults, whatever the settings",
        "pipeline/watch/history_keeper.py",
        "Keeping(writer, settings.keeping, self._log)",
        "Keeping(writer, KeepingOptions(), self._log)",
        f"{_KEEPER}::test_files_are_compacted_as_the_settings_say",
    ),
    Fault(
        "a single look that saw nothing is a success",
        "pipeline/watch/watcher.py",
        "                        raise NothingSeenError(reason)\n",
        "                        pass\n",
        f"{_KEEPER}::test_a_single_look_ends_without_a_notice_and_shows_its_credentials",
    ),
    Fault(
        "a heartbeat that is being renewed stays behind its writer",
        "pipeline/tables/heartbeat.py",
        "            if not self._is_withdrawn:\n",
        "            if True:\n",
        "tests/pipeline/tables/test_heartbeat.py::test_a_heartbeat_is_withdrawn_though_it_is_renewed_while_the_writer_ends",
    ),
    Fault(
        "a rolling restart does not move bundles to what was restarted first",
        "pipeline/drive/roll.py",
        "                first_to=restarted,\n",
        "                first_to=frozenset(),\n",
        f"{_MOVES_OF_A_ROLL}::test_a_bundle_goes_to_a_restarted_broker_that_can_carry_it_or_that_has_to",
    ),
    Fault(
        "a bundle that moved once already moves a third time",
        "pipeline/drive/roll.py",
        "                last_move_of=frozenset(await self._moved(state)),\n",
        "                last_move_of=restarted,\n",
        f"{_MOVES_OF_A_ROLL}::test_a_bundle_goes_to_a_restarted_broker_that_can_carry_it_or_that_has_to",
    ),
    Fault(
        "a move that failed counts as one of a rolling restart's two",
        "pipeline/drive/roll.py",
        "for m in a.moves if m.moved]",
        "for m in a.moves]",
        f"{_MOVES_OF_A_ROLL}::test_the_last_broker_is_filled_with_what_policies_allow_and_what_moved_less_than_twice",
    ),
    Fault(
        "the last broker is filled without the policies of other brokers' bundles",
        "pipeline/drive/roll.py",
        "self._reader.read(broker, all_groups=True)",
        "self._reader.read(broker)",
        f"{_MOVES_OF_A_ROLL}::test_the_last_broker_is_filled_with_what_policies_allow_and_what_moved_less_than_twice",
    ),
    Fault(
        "the last broker is filled though the cluster is not well",
        "pipeline/drive/roll.py",
        "        await self._all_well(state)\n        label, moved",
        "        label, moved",
        f"{_MOVES_OF_A_ROLL}::test_the_last_broker_is_filled_once_the_cluster_is_well",
    ),
    Fault(
        "a pause does not hold the filling of the last broker",
        "pipeline/drive/roll.py",
        "            action.held,\n            self._reader.where,\n        )  # fmt: skip",
        "            where=self._reader.where,\n        )  # fmt: skip",
        f"{_MOVES_OF_A_ROLL}::test_a_pause_holds_the_filling_of_the_last_broker_back",
    ),
    Fault(
        "a command goes on though its rolling restart was given up",
        "pipeline/drive/roll.py",
        "                tasks[0].result()  # raises: it is not ours any more, or cannot be kept\n",
        "                pass\n",
        "tests/pipeline/drive/test_roll.py::test_it_shows_that_it_is_alive_while_a_command_runs_and_ends_with_the_order",
    ),
    Fault(
        "a drain that a fault ended is under way for ever",
        "pipeline/drive/drain.py",
        "        finally:\n            await asyncio.to_thread(log.close, self._clock_ms())\n",
        "        except DrainRefusedError:\n            raise\n",
        "tests/pipeline/drive/test_action_trail.py::test_a_drain_that_a_fault_ends_is_no_longer_under_way",
    ),
)
