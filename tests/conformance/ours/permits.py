"""Whom our rules let do what, on a case."""

import asyncio
from collections.abc import Mapping
from typing import Any

from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import Authorization, Caller, SubscriptionRefused
from counterpoise.security.options import AuthorizationOptions


class _Source:
    def __init__(self, case: Mapping[str, Any]) -> None:
        self._case = case

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        return self._case["tenant"] if name == "t" else None

    async def namespace(self, namespace: NamespaceName) -> Mapping[str, Any] | None:
        return self._case["policies"] if str(namespace) == "t/ns" else None


def permits(case: Mapping[str, Any]) -> Any:
    """The answer to each question."""
    options = AuthorizationOptions(
        enabled=True,
        super_users=tuple(case["super_users"]),
        proxies=tuple(case["proxies"]),
        wildcards=case["wildcards"],
    )
    rules = Authorization(lambda: options, _Source(case))

    async def asked(question: Mapping[str, Any]) -> bool | str:
        caller = Caller(question["role"], question["original"])
        operation = question["operation"]
        if question["topic"] is None:
            return await rules.namespace(caller, NamespaceName("t", "ns"), operation)
        topic = TopicName.parse(question["topic"])
        try:
            return await rules.topic(caller, topic, operation, question["subscription"])
        except SubscriptionRefused:
            return "refused"

    async def each() -> list[bool | str]:
        return [await asked(question) for question in case["lines"]]

    return asyncio.run(each())
