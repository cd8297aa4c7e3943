"""Pulsar's registry of schemas, with its validators and compatibility checks, on a list."""

from typing import Any

from jpype import JArray, JByte, JClass, JException, JImplements, JOverride

from tests.conformance.jvm.java import Java, Json

SCHEMAS = "org.apache.pulsar.broker.service.schema"
TOPIC = "t/n/x"


class Schemas:
    """The schemas of one topic, registered by producers and checked for consumers."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._type = JClass("org.apache.pulsar.common.schema.SchemaType")
        self._data = JClass("org.apache.pulsar.common.protocol.schema.SchemaData")
        data = "org.apache.pulsar.common.policies.data"
        self._strategy = JClass(f"{data}.SchemaCompatibilityStrategy")
        self._service = JClass(f"{SCHEMAS}.SchemaRegistryService")
        configured = JClass("org.apache.pulsar.broker.ServiceConfiguration")()
        self._checks = configured.getSchemaRegistryCompatibilityCheckers()
        executors = JClass("java.util.concurrent.Executors")
        self._executor = executors.newSingleThreadScheduledExecutor()

    def answer(self, case: Json) -> Json:
        stored = _Stored()
        service = self._service.create(stored, self._checks, self._pulsar())
        answers = [self._answered(service, stored, line) for line in case["lines"]]
        service.close()
        return answers

    def _pulsar(self) -> Any:
        """What the registry asks a broker for: where to count."""
        telemetry = JClass("org.apache.pulsar.broker.stats.PulsarBrokerOpenTelemetry")
        meters = JClass("io.opentelemetry.api.metrics.MeterProvider").noop()
        meter = meters.get(self._java.string("none"))
        counting = self._java.double(telemetry, {"getMeter": lambda: meter})
        return self._java.double(
            JClass("org.apache.pulsar.broker.PulsarService"),
            {"getExecutor": lambda: self._executor, "getOpenTelemetry": lambda: counting},
        )

    def _answered(self, service: Any, stored: "_Stored", line: Json) -> Json:
        strategy = self._strategy.valueOf(line["strategy"])
        try:
            data = self._read(line)
            if line["consumer"] and stored.entries:
                service.checkConsumerCompatibility(TOPIC, data, strategy).join()
                return "accepted"
            version = service.putSchemaIfAbsent(TOPIC, data, strategy).join()
            return "accepted" if line["consumer"] else int(version.getVersion())
        except JException as error:
            return _refusal(error)

    def _read(self, line: Json) -> Any:
        properties = self._java.linked_map()
        for name, value in line["properties"].items():
            properties.put(self._java.string(name), self._java.string(value))
        builder = self._data.builder().type(self._type.valueOf(line["type"]))
        data = JArray(JByte)(bytes.fromhex(line["data"]))
        return builder.data(data).timestamp(0).isDeleted(False).user("").props(properties).build()


def _refusal(error: Any) -> str:
    cause = error
    while cause.getCause() is not None and str(cause.getClass().getSimpleName()) not in (
        "IncompatibleSchemaException",
        "InvalidSchemaDataException",
    ):
        cause = cause.getCause()
    kind = str(cause.getClass().getSimpleName())
    if kind == "InvalidSchemaDataException":
        return "invalid"
    # Any other exception is one that Pulsar did not expect, and a client gets it all the same.
    return "incompatible" if kind == "IncompatibleSchemaException" else "refused"


@JImplements("org.apache.pulsar.common.protocol.schema.SchemaStorage", deferred=True)
class _Stored:
    """Versions of one topic in a list."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._future = JClass("java.util.concurrent.CompletableFuture")
        self._version = JClass("org.apache.pulsar.common.schema.LongSchemaVersion")
        self._schema = JClass("org.apache.pulsar.common.protocol.schema.StoredSchema")

    def _all(self) -> Any:
        found = JClass("java.util.ArrayList")()
        for number, data in enumerate(self.entries):
            stored = self._schema(data, self._version(number))
            found.add(self._future.completedFuture(stored))
        return self._future.completedFuture(found)

    @JOverride
    def put(self, key: Any, *how: Any) -> Any:
        if len(how) == 1:
            # What is new is made of what there is; without a new schema the newest one stays.
            pair = how[0].apply(self._all()).join()
            if pair is None:
                return self._future.completedFuture(None)
            self.entries.append(pair.getLeft())
        else:
            self.entries.append(how[0])
        return self._future.completedFuture(self._version(len(self.entries) - 1))

    @JOverride
    def get(self, key: Any, version: Any) -> Any:
        newest = JClass("org.apache.pulsar.common.protocol.schema.SchemaVersion").Latest
        number = len(self.entries) - 1 if version == newest else int(version.getVersion())
        if not 0 <= number < len(self.entries):
            return self._future.completedFuture(None)
        stored = self._schema(self.entries[number], self._version(number))
        return self._future.completedFuture(stored)

    @JOverride
    def getAll(self, key: Any) -> Any:
        return self._all()

    @JOverride
    def delete(self, *_: Any) -> Any:
        raise AssertionError("no schema is deleted here")

    @JOverride
    def versionFromBytes(self, version: Any) -> Any:
        return self._version(int.from_bytes(bytes(version)))

    @JOverride
    def start(self) -> None:
        pass

    @JOverride
    def close(self) -> None:
        pass
