"""Avro's rule of schema resolution: can a reader with one schema read what another wrote?

Schemas are what ``json.loads`` gives for an Avro schema declaration. Pulsar uses these for its
AVRO and JSON types, and asks Avro's ``SchemaValidator``; the rules are those of the Avro
specification's section "Schema Resolution", as Avro 1.11.4's ``Resolver`` reads it: records go by
their fields whatever they are called, and an enum's symbols are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
"""What a writer's primitive may be read as."""

_PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_NAMED: Final = frozenset(("record", "enum", "fixed"))


CHECKS_MAX: Final = 20_000
"""Comparisons of parts of two schemas before they count as too large: a fraction of a second."""


class NotAvro(ValueError):
    """The declaration is no Avro schema."""


@dataclass(slots=True)
class _SchemaSide:
    """One schema, with its named types by full name."""

    root: Any
    named: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._collect(self.root, "")

    def _collect(self, schema: Any, namespace: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in _NAMED:
                name = _full_name(schema, namespace)
                self.named[name] = schema
                namespace = name.rpartition(".")[0]
            for each in schema.get("fields", ()):
                self._collect(each.get("type"), namespace)
            for inner in ("items", "values"):
                self._collect(schema.get(inner), namespace)
            if isinstance(kind, dict | list):
                self._collect(kind, namespace)

    def resolve(self, schema: Any, namespace: str) -> tuple[str, Any, str]:
        """A schema's kind, its declaration and the namespace inside it."""
        if isinstance(schema, list):
            return "union", schema, namespace
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return schema, schema, namespace
            name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            found = self.named.get(name) or self.named.get(schema)
            if found is None:
                raise NotAvro(f"unknown type {schema!r}")
            return str(found["type"]), found, _inside(found, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise NotAvro(f"{schema!r} is no type")
        kind = schema["type"]
        if isinstance(kind, dict | list) or (isinstance(kind, str) and kind in self.named):
            return self.resolve(kind, namespace)
        return str(kind), schema, _inside(schema, namespace)


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    if "." in name:
        return name
    namespace = str(schema.get("namespace") or namespace)
    return f"{namespace}.{name}" if namespace else name


def _full_names(schema: Mapping[str, Any], namespace: str) -> set[str]:
    """A named type's full name and full aliases."""
    name = _full_name(schema, namespace)
    inside = name.rpartition(".")[0]
    aliases = (_full_name({"name": alias}, inside) for alias in schema.get("aliases", ()))
    return {name, *aliases}


def _inside(schema: Mapping[str, Any], namespace: str) -> str:
    if schema.get("type") in _NAMED:
        return _full_name(schema, namespace).rpartition(".")[0]
    return namespace


def why_unreadable(reader: Any, writer: Any) -> str | None:
    """Why ``reader`` cannot read what ``writer`` wrote; None if it can.

    Raises `NotAvro` for a declaration that is no Avro schema, or needs more than `CHECKS_MAX`
    comparisons: of two unions each branch may have to be compared with each.
    """
    try:
        return _Resolution(_SchemaSide(reader), _SchemaSide(writer)).check(
            reader, "", writer, "", ""
        )
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        # A part of it is of another kind than Avro has there, or inside too many others.
        raise NotAvro(f"{type(error).__name__}: {error}") from None


class _Resolution:
    """One comparison; a pair of records under way is assumed to match, as recursion demands."""

    def __init__(self, reader: _SchemaSide, writer: _SchemaSide) -> None:
        self._reader = reader
        self._writer = writer
        self._under_way: set[tuple[int, int]] = set()
        self._checks = 0

    def _step(self) -> None:
        self._checks += 1
        if self._checks > CHECKS_MAX:
            raise NotAvro(f"to compare it takes more than {CHECKS_MAX} steps")

    def check(
        self, reader: Any, in_reader: str, writer: Any, in_writer: str, at: str
    ) -> str | None:
        """Compare two declarations, found at the path ``at``."""
        self._step()
        read_kind, reader, in_reader = self._reader.resolve(reader, in_reader)
        write_kind, writer, in_writer = self._writer.resolve(writer, in_writer)
        if write_kind == "union":
            problems = (self.check(reader, in_reader, each, in_writer, at) for each in writer)
            return next((problem for problem in problems if problem is not None), None)
        if read_kind == "union":
            return self._check_branches(reader, in_reader, write_kind, writer, in_writer, at)
        if read_kind != write_kind:
            if (write_kind, read_kind) in _PROMOTIONS:
                return None
            return f"{at or '/'}: {write_kind} is not read as {read_kind}"
        if read_kind in _PRIMITIVES:
            return None
        if read_kind in ("array", "map"):
            inner = "items" if read_kind == "array" else "values"
            return self.check(
                reader.get(inner), in_reader, writer.get(inner), in_writer, f"{at}/{inner}"
            )
        return self._check_named(read_kind, reader, in_reader, writer, in_writer, at)

    def _check_branches(
        self, union: Any, in_reader: str, write_kind: str, writer: Any, in_writer: str, at: str
    ) -> str | None:
        """A branch of the writer's full name decides alone; an enum or a fixed needs one."""
        if write_kind in _NAMED:
            full_name = _full_name(writer, in_writer)
            for each in union:
                self._step()
                kind, branch, inside = self._reader.resolve(each, in_reader)
                if kind == write_kind and full_name in _full_names(branch, inside):
                    return self.check(each, in_reader, writer, in_writer, at)
        if write_kind in ("enum", "fixed") or not any(
            self.check(each, in_reader, writer, in_writer, at) is None for each in union
        ):
            return f"{at or '/'}: no branch of the reader's union reads {_say(write_kind, writer)}"
        return None

    def _check_named(
        self,
        kind: str,
        reader: Mapping[str, Any],
        in_reader: str,
        writer: Mapping[str, Any],
        in_writer: str,
        at: str,
    ) -> str | None:
        if kind not in _NAMED:
            raise NotAvro(f"unknown type {kind!r}")
        if kind != "record":
            return self._check_unstructured(kind, reader, in_reader, writer, in_writer, at)
        pair = (id(reader), id(writer))
        if pair in self._under_way:
            return None
        self._under_way.add(pair)
        problem = self._check_fields(reader, in_reader, writer, in_writer, at)
        if problem is not None:
            self._under_way.discard(pair)
        return problem

    def _check_unstructured(
        self,
        kind: str,
        reader: Mapping[str, Any],
        in_reader: str,
        writer: Mapping[str, Any],
        in_writer: str,
        at: str,
    ) -> str | None:
        """An enum or a fixed goes by its name without namespace, or by an alias.

        An enum's symbols are not compared: one that the reader does not know fails when it is read.
        """
        names = _full_name(reader, in_reader), _full_name(writer, in_writer)
        short = [name.rpartition(".")[2] for name in names]
        if short[0] != short[1] and names[1] not in _full_names(reader, in_reader):
            return f"{at or '/'}: the reader expects {names[0]}, the writer wrote {names[1]}"
        if kind == "fixed" and reader.get("size") != writer.get("size"):
            return f"{at or '/'}: the sizes of {names[0]} differ"
        return None

    def _check_fields(
        self,
        reader: Mapping[str, Any],
        in_reader: str,
        writer: Mapping[str, Any],
        in_writer: str,
        at: str,
    ) -> str | None:
        written = {each["name"]: each for each in writer.get("fields", ())}
        for each in reader.get("fields", ()):
            names = (each["name"], *each.get("aliases", ()))
            found = next((written[name] for name in names if name in written), None)
            path = f"{at}/{each['name']}"
            if found is None:
                if "default" not in each:
                    return f"{path}: the writer has no such field and the reader no default"
                continue
            problem = self.check(each["type"], in_reader, found["type"], in_writer, path)
            if problem is not None:
                return problem
        return None


def _say(kind: str, schema: Any) -> str:
    return f"{kind} {schema['name']}" if kind in _NAMED else kind
