"""Whose transactions a client may add to and end, and how many it may open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.transactions import ClientTransactions
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.broker.transactions.table import CoordinatorTable, Record
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.values import TransactionId
from tests.broker.connection.transactor import ABORT, COMMIT


class Client:
    """A client with a role, and coordinator 0."""

    def __init__(self, role: str | None, *, is_superuser: bool = False) -> None:
        self.permits = SimpleNamespace(caller=SimpleNamespace(role=role), is_superuser=self._super)
        self.address = "/c:1"
        self.enabled, self.open_max = True, 0
        self.table = CoordinatorTable(0)
        self.done: list[str] = []
        self._is_superuser = is_superuser
        self.participants = SimpleNamespace()
        services = SimpleNamespace(transactions=self, participants=self.participants)
        self.transactions = ClientTransactions(cast("Any", self), cast("Any", services))

    async def _super(self) -> bool:
        return self._is_superuser

    def find(self, coordinator: int) -> Coordinator:
        return cast("Any", self)

    # As the coordinator.

    async def open(self, timeout_ms: int, owner: str | None) -> TransactionId:
        record: Record = self.table.open(0, timeout_ms, owner)
        self.table.apply(record, 0)
        return TransactionId(0, record["txn"])

    async def add(self, *_: object) -> None:
        self.done.append("add")

    async def end(self, _: TransactionId, *, commit: bool) -> None:
        self.done.append("commit" if commit else "abort")


@pytest.mark.parametrize(
    ("owner", "role", "is_superuser", "may"),
    [
        ("a", "a", False, True),
        ("a", "b", False, False),
        ("a", "b", True, True),
        ("a", None, False, False),
        (None, "b", False, False),
        (None, "b", True, True),
        (None, None, False, True),
    ],
)
async def test_only_its_owner_and_a_superuser_add_to_a_transaction_and_end_it(
    owner: str | None, role: str | None, is_superuser: bool, may: bool
) -> None:
    client = Client(role, is_superuser=is_superuser)
    await client.open(1000, owner)
    of, asked = {"request_id": 1, "txnid_most_bits": 0, "txnid_least_bits": 0}, client.transactions
    named = [commands.Subscription(topic="t", subscription="s")]
    add = commands.CommandAddSubscriptionToTxn(**of, subscription=named)
    for begin in (
        lambda: asked.add_topics(commands.CommandAddPartitionToTxn(**of, partitions=["t"])),
        lambda: asked.add_subscriptions(add),
        lambda: asked.end(commands.CommandEndTxn(**of, txn_action=COMMIT)),
        lambda: asked.end(commands.CommandEndTxn(**of, txn_action=ABORT)),
    ):
        if may:
            assert await begin()
        else:
            with pytest.raises(BrokerError, match="neither the owner of") as refused:
                await begin()
            assert refused.value.code is ServerError.UnknownError
    assert client.done == (["add", "add", "commit", "abort"] if may else [])


@pytest.mark.parametrize(("most", "opened"), [(0, 4), (3, 3), (1, 1)])
async def test_beyond_so_many_open_transactions_none_is_answered(most: int, opened: int) -> None:
    client = Client("a")
    client.open_max = most
    answers = []
    for _ in range(4):
        new = commands.CommandNewTxn(request_id=1, tc_id=0, txn_ttl_seconds=1000)
        answers.append(await client.transactions.new(new) is not None)
    assert answers == [True] * opened + [False] * (4 - opened)


@pytest.mark.parametrize("is_superuser", [False, True])
async def test_coordinators_alone_end_a_transaction_on_a_topic(is_superuser: bool) -> None:
    client = Client("a", is_superuser=is_superuser)
    ended: list[EndOnParticipant] = []

    async def end(request: EndOnParticipant) -> None:
        ended.append(request)

    client.participants.end = end
    request = EndOnParticipant(3, TransactionId(0, 1), COMMIT, -1, "t", None)
    if is_superuser:
        assert await client.transactions.end_here(request)
    else:
        with pytest.raises(BrokerError, match=r"TC client \(a\) is not a super user") as refused:
            await client.transactions.end_here(request)
        assert refused.value.code is ServerError.UnknownError
    assert ended == [request] * is_superuser
