"""The Java virtual machine of a judge: start it, look classes up, stand in for what is missing."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jpype
from jpype import JClass, JImplements, JOverride

from counterpoise.app.clusters.java import find_java

LOADBALANCE = "org.apache.pulsar.broker.loadbalance"
POLICIES = "org.apache.pulsar.policies.data.loadbalancer"
NAMING = "org.apache.pulsar.common.naming"

Json = Any


def start(lib: Path, *, briefly: bool = False) -> None:
    """Start the virtual machine on the jars in `lib`, with every logger off.

    For a brief life, compiling code well costs more than it saves.

    Off and not merely quiet: several classes turn on debug behaviour that changes decisions when
    their logger's debug level is on.
    """
    library = Path(find_java()).resolve().parent.parent / "lib" / "server" / "libjvm.so"
    jpype.startJVM(
        str(library) if library.exists() else jpype.getDefaultJVMPath(),
        "-Xmx3g",
        "-XX:+UseSerialGC",
        *(("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData") if briefly else ()),
        "-Dlog4j2.level=OFF",
        classpath=[str(jar) for jar in sorted(lib.glob("*.jar"))],
        convertStrings=False,
    )
    configurator = JClass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setRootLevel(JClass("org.apache.logging.log4j.Level").OFF)


class Java:
    """Classes and helpers that every part of the judge needs; one per process, after `start`."""

    def __init__(self) -> None:
        self.linked_map = JClass("java.util.LinkedHashMap")
        self.tree_map = JClass("java.util.TreeMap")
        self.linked_set = JClass("java.util.LinkedHashSet")
        self.array_list = JClass("java.util.ArrayList")
        self.optional = JClass("java.util.Optional")
        self.future = JClass("java.util.concurrent.CompletableFuture")
        self.integer = JClass("java.lang.Integer")
        self.long = JClass("java.lang.Long")
        self.string = JClass("java.lang.String")
        self.configuration = JClass("org.apache.pulsar.broker.ServiceConfiguration")
        loader = JClass("org.apache.pulsar.common.configuration.PulsarConfigurationLoader")
        self._create_configuration = loader.create
        factory = JClass("org.apache.pulsar.common.util.ObjectMapperFactory")
        self.mapper = factory.create()
        features = JClass("com.fasterxml.jackson.databind.DeserializationFeature")
        self.mapper.configure(features.FAIL_ON_UNKNOWN_PROPERTIES, False)
        parser = JClass("com.fasterxml.jackson.core.JsonParser$Feature")
        self.mapper.configure(parser.ALLOW_NON_NUMERIC_NUMBERS, True)
        field = JClass("sun.misc.Unsafe").class_.getDeclaredField("theUnsafe")
        field.setAccessible(True)
        self._unsafe = field.get(None)
        self._doubles: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._map_types: dict[str, Any] = {}

    def conf(self, values: Mapping[str, object]) -> Any:
        """A ServiceConfiguration as a broker.conf with these lines would make it."""
        properties = JClass("java.util.Properties")()
        for name, value in values.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            properties.setProperty(name, text)
        return self._create_configuration(properties, self.configuration.class_)

    def read(self, value: Json, cls: str) -> Any:
        """An object of `cls` from Pulsar's own JSON."""
        return self.mapper.readValue(self.string(json.dumps(value)), JClass(cls).class_)

    def read_map(self, value: Json, cls: str) -> Any:
        """A map in the order of the JSON object, its values of `cls`."""
        kind = self._map_types.get(cls)
        if kind is None:
            kind = self.mapper.getTypeFactory().constructMapType(
                self.linked_map.class_, self.string.class_, JClass(cls).class_
            )
            self._map_types[cls] = kind
        return self.mapper.readValue(self.string(json.dumps(value)), kind)

    def write(self, value: Any) -> Json:
        """A Java object as Python data, by Jackson."""
        return json.loads(str(self.mapper.writeValueAsString(value)))

    def strings(self, values: list[str]) -> Any:
        """A set that iterates in the given order."""
        out = self.linked_set()
        for value in values:
            out.add(self.string(value))
        return out

    def bare(self, cls: Any) -> Any:
        """An instance whose constructor never ran; its fields are set by `put`."""
        return self._unsafe.allocateInstance(cls)

    def double(self, cls: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
        """An instance of a subclass of `cls` that answers `methods` from Python.

        Its constructor never runs, so this stands in for services that need a whole broker.
        """
        names = tuple(sorted(methods))
        subclass = self._doubles.get((str(cls), names))
        if subclass is None:
            subclass = self._doubles[str(cls), names] = _Subclass(cls, names)
        made = self.bare(subclass.loaded)
        subclass.handler.answers[self.identity(made)] = dict(methods)
        return made

    def release(self) -> None:
        """Drop every double made so far: a case's doubles end with the case."""
        for subclass in self._doubles.values():
            subclass.handler.answers.clear()

    @staticmethod
    def identity(value: Any) -> int:
        return int(JClass("java.lang.System").identityHashCode(value))

    @staticmethod
    def field(owner: Any, name: str) -> Any:
        """The reflected field, found in the class or the classes it extends."""
        cls = owner.getClass()
        while cls is not None:
            for candidate in cls.getDeclaredFields():
                if str(candidate.getName()) == name:
                    candidate.setAccessible(True)
                    return candidate
            cls = cls.getSuperclass()
        raise AttributeError(f"{owner.getClass().getName()} has no field {name}")

    def peek(self, owner: Any, name: str) -> Any:
        return self.field(owner, name).get(owner)

    def put(self, owner: Any, name: str, value: Any) -> None:
        self.field(owner, name).set(owner, value)


@JImplements("java.lang.reflect.InvocationHandler", deferred=True)
class _Handler:
    """Dispatches a double's calls to the Python functions of that very instance."""

    def __init__(self) -> None:
        self.answers: dict[int, dict[str, Callable[..., Any]]] = {}

    @JOverride
    def invoke(self, proxy: Any, method: Any, args: Any) -> Any:
        answers = self.answers[Java.identity(proxy)]
        return answers[str(method.getName())](*(args or ()))


class _Subclass:
    """A generated subclass and the handler behind its overridden methods."""

    def __init__(self, cls: Any, names: tuple[str, ...]) -> None:
        self.handler = _Handler()
        matchers = JClass("net.bytebuddy.matcher.ElementMatchers")
        adapter = JClass("net.bytebuddy.implementation.InvocationHandlerAdapter")
        strategy = JClass("net.bytebuddy.dynamic.loading.ClassLoadingStrategy$Default")
        builder = JClass("net.bytebuddy.ByteBuddy")().subclass(cls)
        builder = builder.method(matchers.namedOneOf(*names)).intercept(adapter.of(self.handler))
        made = builder.make().load(cls.class_.getClassLoader(), strategy.WRAPPER)
        self.loaded = made.getLoaded()
