"""Whom Pulsar lets do what, by its AuthorizationService and PulsarAuthorizationProvider."""

import json

from jpype import JClass, JException

from tests.conformance.jvm.java import NAMING, Java, Json

AUTH = "org.apache.pulsar.broker"
DATA = "org.apache.pulsar.common.policies.data"
OPEN_MOST = 20


class Permits:
    """One namespace of one tenant in a store in memory, and questions about it."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._conf = JClass(f"{AUTH}.ServiceConfiguration")
        self._service = JClass(f"{AUTH}.authorization.AuthorizationService")
        self._resources = JClass(f"{AUTH}.resources.PulsarResources")
        self._shown = JClass(f"{AUTH}.authentication.AuthenticationDataCommand")
        self._with = JClass(f"{AUTH}.authentication.AuthenticationDataSubscription")
        self._topic = JClass(f"{NAMING}.TopicName")
        self._namespace = JClass(f"{NAMING}.NamespaceName")
        self._topic_operation = JClass(f"{DATA}.TopicOperation")
        self._namespace_operation = JClass(f"{DATA}.NamespaceOperation")
        self._none = JClass("java.util.Optional").empty()
        config = JClass("org.apache.pulsar.metadata.api.MetadataStoreConfig").builder().build()
        create = JClass("org.apache.pulsar.metadata.api.MetadataStoreFactory").create
        self._new_store = lambda: create("memory:local", config)
        self._open: list[Json] = []

    def answer(self, case: Json) -> Json:
        store = self._new_store()
        self._open.append(store)
        if len(self._open) > OPEN_MOST:
            # Not the one in use: what reads it goes on for a moment, and complains of an end.
            self._open.pop(0).close()
        for path, value in (
            ("/admin/policies/t", case["tenant"]),
            ("/admin/policies/t/ns", case["policies"]),
        ):
            content = self._java.string(json.dumps(value)).getBytes("UTF-8")
            store.put(path, content, self._none).get()
        service = self._service(self._configured(case), self._resources(store, store))
        return [self._asked(service, question) for question in case["lines"]]

    def _configured(self, case: Json) -> Json:
        conf = self._conf()
        conf.setClusterName("c")
        conf.setAuthorizationEnabled(True)
        conf.setAuthorizationAllowWildcardsMatching(case["wildcards"])
        for names, put in (
            (case["super_users"], conf.setSuperUserRoles),
            (case["proxies"], conf.setProxyRoles),
        ):
            found = JClass("java.util.HashSet")()
            for name in names:
                found.add(self._java.string(name))
            put(found)
        return conf

    def _asked(self, service: Json, question: Json) -> Json:
        role, original = question["role"], question["original"]
        shown = self._shown("x")
        if question["subscription"]:
            shown = self._with(shown, question["subscription"])
        if question["topic"] is None:
            what = self._namespace.get("t/ns")
            operation = self._namespace_operation.valueOf(question["operation"])
            ask, data = service.allowNamespaceOperationAsync, (shown,)
        else:
            what = self._topic.get(question["topic"])
            operation = self._topic_operation.valueOf(question["operation"])
            ask, data = service.allowTopicOperationAsync, (shown, shown)
        try:
            return bool(ask(what, operation, original, role, *data).get())
        except JException:
            return "refused"
