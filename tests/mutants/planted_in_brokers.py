"""Faults of brokers: what clients are answered and keep, and which broker owns what."""

from tests.mutants.fault import Fault

_TOPIC = "tests/broker/topic/test_publish_and_consume.py"
_BAD_DAYS = "tests/broker/bundles/test_bad_days.py"
_ELECTION = "tests/broker/bundles/test_election.py"
_STATES = "tests/wire/test_states.py"
_CONSUMING = "tests/broker/connection/test_consumers.py"

IN_BROKERS: tuple[Fault, ...] = (
    Fault(
        "a cumulative acknowledgement inside a batch acknowledges the whole batch",
        "broker/topic/subscription.py",
        "        elif ack_set and found == position and self._ack_part(index, ack_set):\n"
        "            index -= 1\n",
        "",
        f"{_TOPIC}::test_a_cumulative_ack_inside_a_batch_takes_all_before_the_batch",
        quick=True,
    ),
    Fault(
        "an acknowledgement of a part of a batch acknowledges the whole batch",
        "broker/topic/subscription.py",
        "                dispatcher.acked_part(consumer, index, left)\n                continue\n",
        "                dispatcher.acked_part(consumer, index, left)\n",
        "tests/broker/topic",
    ),
    Fault(
        "an unload doesn't wait for receipts",
        "storage/grouplog.py",
        "        if self._gathering.entries or self._submitted:\n            waiter",
        "        if False:\n            waiter",
        f"{_TOPIC}::test_an_unload_waits_for_the_receipts_of_what_is_under_way",
        quick=True,
    ),
    Fault(
        "a lost connection keeps its consumers",
        "broker/connection/connection.py",
        "        self.consuming.detach_all()\n",
        "",
        f"{_CONSUMING}::test_a_lost_connection_leaves_no_consumer_behind",
    ),
    Fault(
        "a lost connection keeps its producers",
        "broker/connection/connection.py",
        "        self.producing.detach_all()\n",
        "",
        "tests/broker/connection/test_handshake.py"
        "::test_a_name_is_free_again_when_its_connection_is_gone",
    ),
    Fault(
        "consumers that were lost stay with their subscription",
        "broker/connection/consumers.py",
        "        one_by_one(consumers, Consumer.close)\n",
        "",
        f"{_CONSUMING}::test_a_lost_connection_leaves_no_consumer_behind",
    ),
    Fault(
        "how many messages a batch holds is not looked at",
        "wire/entry.py",
        "    if not 1 <= count <= min(size // _BATCHED_MESSAGE_MIN, BATCH_MAX):\n",
        "    if False:\n",
        "tests/wire/test_messages_in.py",
    ),
    Fault(
        "a batch counts as one message",
        "wire/entry.py",
        "    return count\n",
        "    return 1\n",
        "tests/wire/test_messages_in.py",
        quick=True,
    ),
    Fault(
        "a lookup is sent to a dead successor",
        "broker/bundles/lookup.py",
        "        if destination not in await self._registry.active():\n",
        "        if False:\n",
        f"{_BAD_DAYS}::test_a_successor_that_is_gone_keeps_no_bundle_from_the_living",
    ),
    Fault(
        "a lookup is sent to a dead leader",
        "broker/bundles/lookup.py",
        "        if asks_leader and leader is not None and leader.broker_id in active:\n",
        "        if asks_leader and leader is not None:\n",
        f"{_BAD_DAYS}::test_no_lookup_is_sent_to_a_leader_that_is_gone",
    ),
    Fault(
        "a lost session changes nothing for bundles",
        "broker/bundles/ownership.py",
        "                self._runner.feed(bundle, events.SessionChanged())\n",
        "                pass\n",
        f"{_BAD_DAYS}::test_a_lost_session_is_noticed_without_news_of_the_deleted_lock",
    ),
    Fault(
        "a lost session changes nothing for the leader",
        "broker/bundles/election.py",
        "            self._feed(election.SessionLost())\n",
        "            pass\n",
        f"{_ELECTION}::test_a_leader_that_lost_its_session_does_not_lead_while_the_store_is_away",
    ),
    Fault(
        "what a lost session has left is taken for owned",
        "ownership/lock/table.py",
        "        events.SessionChanged: session,\n",
        "        events.SessionChanged: do.stay,\n",
        "tests/ownership/lock",
    ),
    Fault(
        "a leader goes on leading without a session",
        "ownership/election.py",
        "    after = replace(state, role=Role.UNDECIDED, leader=None, claimed=False)\n",
        "    after = state\n",
        "tests/ownership/test_election.py",
    ),
    Fault(
        "a lock that goes while we hear that it was created is believed",
        "ownership/lock/table.py",
        "        node=do.on_node(lock_vanished=do.distrust, withdrawn=do.hear_withdrawal),\n"
        "        session=do.distrust,\n"
        "        timer=do.end_pause,\n"
        "        results={**_ABOUT_THE_LOCK, events.CommandFailed: do.trying(TRIES, do.free)},\n",
        "        node=do.on_node(withdrawn=do.hear_withdrawal),\n"
        "        session=do.distrust,\n"
        "        timer=do.end_pause,\n"
        "        results={**_ABOUT_THE_LOCK, events.CommandFailed: do.trying(TRIES, do.free)},\n",
        "tests/ownership/test_two_brokers.py",
    ),
    Fault(
        "an owner that lost its session goes on",
        "ownership/lock/table.py",
        "        node=do.on_node(lock_vanished=do.lose),\n        session=do.doubt,\n",
        "        node=do.on_node(lock_vanished=do.lose),\n",
        "tests/ownership/test_two_brokers.py",
    ),
    Fault(
        "what comes for a producer that the broker closed is stored",
        "wire/states.py",
        "    (_DETACHED, Type.SEND): Transition(_DETACHED, discard=True),\n",
        "    (_DETACHED, Type.SEND): Transition(_DETACHED),\n",
        _STATES,
    ),
    Fault(
        "a second CONNECT is welcome",
        "wire/states.py",
        "    Type.AUTH_RESPONSE,\n)",
        "    Type.AUTH_RESPONSE,\n    Type.CONNECT,\n)",
        _STATES,
    ),
    Fault(
        "a producer is gone as soon as the broker closes it",
        "wire/states.py",
        "    (_READY, PeerChange.DETACHED): Transition(_DETACHED),\n    (_READY, Type.SEND)",
        "    (_READY, PeerChange.DETACHED): Transition(_ABSENT),\n    (_READY, Type.SEND)",
        _STATES,
    ),
    Fault(
        "a client that seeks without a consumer is disconnected",
        "wire/states.py",
        "        for command in _REQUESTS\n    },\n    **{(state, Type.CONSUMER_STATS)",
        "        for command in _REQUESTS[1:]\n    },\n    **{(state, Type.CONSUMER_STATS)",
        _STATES,
    ),
    Fault(
        "a client that goes away undoes what it decided of a transaction",
        "broker/transactions/coordinator.py",
        "await asyncio.shield(self._finish(known))",
        "await self._finish(known)",
        "tests/broker/transactions/test_coordinator.py::test_what_a_client_decided_is_done_though_it_goes_away_and_its_records_go",
    ),
    Fault(
        "the log of a coordinator grows for ever",
        "broker/transactions/coordinator.py",
        "        self._log.trim(self.table.kept_from(self._log.end))\n",
        "",
        "tests/broker/transactions/test_coordinator.py::test_what_a_client_decided_is_done_though_it_goes_away_and_its_records_go",
    ),
    Fault(
        "a coordinator that has gone elsewhere writes",
        "broker/transactions/coordinator.py",
        "        if not self.is_usable:\n            raise not_here(self.table.coordinator)\n        self.table.apply",
        "        self.table.apply",
        "tests/broker/transactions/test_coordinator.py::test_a_coordinator_that_has_gone_elsewhere_writes_and_asks_nothing_more",
    ),
    Fault(
        "a closed coordinator leaves what it was ending",
        "broker/transactions/coordinator.py",
        "        for task in self._ending.values():\n            task.cancel()\n",
        "",
        "tests/broker/transactions/test_coordinator.py::test_a_coordinator_that_has_gone_elsewhere_writes_and_asks_nothing_more",
    ),
    Fault(
        "pauses between two attempts to end a transaction grow for ever",
        "broker/transactions/coordinator.py",
        "pause_s = min(2 * pause_s, _RETRY_MAX_S)",
        "pause_s = 2 * pause_s",
        "tests/broker/transactions/test_coordinator.py::test_a_participant_that_is_on_its_way_is_asked_again_ten_seconds_apart_at_most",
    ),
    Fault(
        "one transaction alone is aborted when its time is over",
        "broker/transactions/coordinator.py",
        "        asyncio.get_running_loop().call_soon(self._set_timer)\n",
        "",
        "tests/broker/transactions/test_coordinator.py::test_what_its_client_forgets_is_aborted_when_its_time_is_over_and_nothing_else",
    ),
    Fault(
        "revoking one role's permissions revokes all",
        "admin/rest/permissions.py",
        "others = {name: granted for name, granted in (roles or {}).items() if name != role}",
        "others = {}",
        "tests/admin/test_messages.py::test_permissions_are_kept",
    ),
    Fault(
        "a grant on a namespace removes those on its topics",
        "admin/rest/permissions.py",
        'policies["auth_policies"] = {**auth, "namespace_auth": roles}',
        'policies["auth_policies"] = {"namespace_auth": roles}',
        "tests/admin/test_messages.py::test_permissions_are_kept",
    ),
    Fault(
        "a topic that is widened loses its properties",
        "admin/rest/partitioned_topics.py",
        'lambda now: {**now, "partitions": count}',
        'lambda now: {"partitions": count}',
        "tests/admin/test_topics.py::test_a_partitioned_topic_is_made_widened_summed_deleted",
    ),
    Fault(
        "policies of a partitioned topic outlive it",
        "admin/rest/partitioned_topics.py",
        "    await broker_of(request).policies.topic_policies(topic).delete(missing_ok=True)\n",
        "",
        "tests/admin/test_topics.py::test_a_partitioned_topic_is_made_widened_summed_deleted",
    ),
    Fault(
        "sixty-four partitions are created, and no more",
        "admin/rest/partitioned_topics.py",
        "    while some := list",
        "    if some := list",
        "tests/admin/test_partitions.py::test_a_broker_does_not_ask_itself",
    ),
    Fault(
        "hash positions of a partitioned topic are none",
        "admin/rest/bundles.py",
        "chosen = not requested or topic in requested or topic.partitioned_name in requested",
        "chosen = not requested or topic in requested",
        "tests/admin/test_bundles.py::test_positions_of_topics_on_the_ring",
    ),
    Fault(
        "an isolation policy's threshold may be any text",
        "admin/rest/isolation.py",
        'if name in ("min_limit", "usage_threshold"):',
        'if name in ("min_limit",):',
        "tests/admin/test_tenants_and_clusters.py::test_isolation_policies",
    ),
    Fault(
        "a failure domain that is not there is deleted",
        "admin/rest/isolation.py",
        '        raise not_found(f"Domain-name {name} or cluster {cluster} does not exist") from None\n',
        "        return\n",
        "tests/admin/test_tenants_and_clusters.py::test_failure_domains_do_not_share_brokers",
    ),
)
