"""Faults of how moves are carried out, by a balancer or by hand, and of what they rest on."""

from tests.mutants.fault import Fault

_ROLL = "tests/pipeline/drive/test_roll.py"
_ANSWERS = "tests/pipeline/test_executor_answers.py"
_STOPS_NONE = "test_what_stopped_moves_stops_none_of_the_next_and_a_dry_run_looks_at_no_broker"
_COUNTED = (
    "tests/pipeline/test_balancer.py::"
    "test_a_round_and_how_its_moves_ended_are_counted_and_notified_of"
)
_LOOKS = (
    "tests/pipeline/fleet/test_fleet_watch.py::"
    "test_each_look_is_about_now_and_a_broker_that_hangs_is_silent"
)

IN_MOVES: tuple[Fault, ...] = (
    Fault(
        "a rolling restart that was given up goes on with the next process",
        "pipeline/drive/roll.py",
        "            if await asyncio.to_thread(self._trail.roll) != state:\n",
        "            now = await asyncio.to_thread(self._trail.roll)\n"
        "            if now is None or now.seen_ms != state.seen_ms:\n",
        "tests/pipeline/drive/test_roll_taken_over.py::"
        "test_what_another_process_carries_out_or_is_given_up_is_not_taken_over",
    ),
    Fault(
        "a cluster that is well has no time left to show it",
        "pipeline/drive/roll.py",
        "            if now - began > self._options.patience_s and reason:\n",
        "            if now - began > self._options.patience_s:\n",
        f"{_ROLL}::test_the_cluster_has_to_be_well_for_a_while_on_end_before_the_next_broker",
    ),
    Fault(
        "a pause of the operator stops a rolling restart where it would wait",
        "pipeline/drive/roll.py",
        "        if why := await asyncio.to_thread(self._trail.withheld):\n            return why\n",
        "",
        f"{_ROLL}::test_no_further_broker_is_begun_while_the_cluster_is_not_well",
    ),
    Fault(
        "a rolling restart has ended though its last broker was not filled",
        "pipeline/drive/roll.py",
        "        if rise:\n",
        "        if False:\n",
        "tests/pipeline/drive/test_roll_moves.py::"
        "test_the_filling_of_the_last_broker_stops_once_publishing_is_slow",
    ),
    Fault(
        "moves that made publishing slow did not hurt",
        "pipeline/rounds.py",
        ", carried=loads, rise=rise\n",
        ", carried=loads\n",
        "tests/pipeline/test_rounds.py::"
        "test_what_failed_before_moves_were_stopped_is_kept_and_not_tried_again",
    ),
    Fault(
        "moves that publish latency stopped end as if none had",
        "pipeline/executor.py",
        "        return rises[-1] if rises else None\n",
        "        return None\n",
        f"{_ANSWERS}::{_STOPS_NONE}",
    ),
    Fault(
        "a dry run asks brokers for their publish latency",
        "pipeline/executor.py",
        "return sorted(touched) if self._options.execute else []",
        "return sorted(touched)",
        f"{_ANSWERS}::{_STOPS_NONE}",
    ),
    Fault(
        "the time of a move begins before its consumers are asked about",
        "pipeline/executor.py",
        "                started = self._clock_ms()\n",
        "",
        f"{_ANSWERS}::test_a_move_ends_as_the_owners_show",
    ),
    Fault(
        "an unload waits for a connection as long as for its answer",
        "pipeline/executor.py",
        "(total=self._options.unload_within_s, connect=connects_s)",
        "(total=self._options.unload_within_s)",
        f"{_ANSWERS}::test_an_unload_for_which_there_is_no_connection_in_time_is_not_sent",
    ),
    Fault(
        "each move that ends frees all places",
        "pipeline/executor.py",
        "            self._under_way -= 1\n",
        "            self._under_way = 0\n",
        f"{_ANSWERS}::test_moves_go_beside_each_other_one_more_with_each_that_ends",
    ),
    Fault(
        "no balancer sees bundles go to and fro",
        "pipeline/balancer.py",
        "            span_ms=strategy.balance.thrash_span_ms,\n",
        "",
        _COUNTED,
    ),
    Fault(
        "an operator is not notified of rounds",
        "pipeline/round_reporter.py",
        "        self._notices.decided(made)\n",
        "",
        _COUNTED,
    ),
    Fault(
        "what holds rounds is never over for those who are notified",
        "pipeline/round_reporter.py",
        '        self._notices.withheld("rounds", reason)\n',
        '        if reason:\n            self._notices.withheld("rounds", reason)\n',
        "tests/pipeline/test_policies.py::"
        "test_of_two_reasons_the_last_one_is_over_when_rounds_are_made_again",
    ),
    Fault(
        "a plan moves again what the history says was moved just now",
        "pipeline/advise/plan_inputs.py",
        "        memory = Journal(reader).memory_before(newest_poll(state))\n",
        "        memory = Journal(reader).memory_before(0)\n",
        "tests/pipeline/advise/test_advise.py::"
        "test_a_plan_leaves_alone_what_the_history_says_was_moved_lately",
    ),
    Fault(
        "a broker that hangs hides its whole cluster",
        "pipeline/fleet/fleet_watch.py",
        "AdminOptions(timeout_s=within_s / 3)",
        "AdminOptions(timeout_s=within_s)",
        _LOOKS,
    ),
    Fault(
        "a fleet shows what a history said at the first look",
        "pipeline/fleet/fleet_watch.py",
        "        found, self._reading = self._reading.result.result(), None\n",
        "        found = self._reading.result.result()\n",
        _LOOKS,
    ),
    Fault(
        "an import leaves out what came between two coarse looks",
        "pipeline/prometheus/api.py",
        "(int(present[0]) - coarse.step_ms - grid.first_ms)",
        "(int(present[0]) - grid.first_ms)",
        "tests/pipeline/prometheus/test_api.py::"
        "test_what_is_read_begins_no_later_than_the_first_series",
    ),
    Fault(
        "a broker that uses nothing is one that says nothing",
        "pipeline/prometheus/piece.py",
        "where=counts > 0)",
        "where=sums > 0)",
        "tests/pipeline/prometheus/test_piece.py::"
        "test_a_broker_that_uses_nothing_is_known_and_one_without_a_value_is_not",
    ),
)
