"""Avro's schema resolution: whether a reader with one schema can read what was written with
another.

Schemas are the results of ``json.loads`` for Avro schema declarations. Pulsar uses these for its
AVRO and JSON types, and compares them by Avro's ``SchemaValidator``. The rules are those of the
Avro specification's section "Schema Resolution", as Avro 1.11.4's ``Resolver`` implements them:
records match whatever their names are, and an enum's symbols are not compared.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

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
"""Pairs of a writer's primitive type and another one as which a reader may read it."""

_PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_PARTS: Final = {
    "record": ("fields", list),
    "error": ("fields", list),
    "enum": ("symbols", list),
    "fixed": ("size", int),
}
"""What each kind of named type declares besides its name, and of which type that is. An error is a
record."""
_NAMED: Final = frozenset(_PARTS)
_LAST_CHARACTER: Final = "\uffff"
"""Java looks at a character above this one as at two, which are no letters."""


CHECKS_MAX: Final = 20_000
"""How many comparisons of parts two schemas may need (a fraction of a second); `NotAvro` beyond."""


class NotAvro(ValueError):
    """A schema's declaration is not valid Avro."""


class _Type(NamedTuple):
    """One type of a schema: its kind, its declaration, and the namespace of names inside it."""

    kind: str
    declared: Any
    namespace: str

    @property
    def name(self) -> str:
        """A named type's name, in full."""
        return _full_name(self.declared, self.namespace)

    @property
    def names(self) -> set[str]:
        """The names by which a named type is found: its name and its aliases, in full."""
        inside = self.name.rpartition(".")[0]
        aliases = self.declared.get("aliases", ())
        return {self.name, *(_full_name({"name": alias}, inside) for alias in aliases)}


class _Types:
    """The types of one schema; named ones can be found by full name."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._renamed: dict[str, str] = {}
        """By alias of a named type its name."""
        self._renamed_fields: dict[str, dict[str, str]] = {}
        """By record, for each alias of a field the field's name."""
        self._required: set[int] = set()
        self._collect(schema, "")

    def _collect(self, schema: Any, namespace: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in _NAMED:
                _require_parts(schema, kind)
                name = _full_name(schema, namespace)
                if name in self._named:
                    raise NotAvro(f"{name} is declared twice")
                self._named[name] = schema
                namespace = name.rpartition(".")[0]
                self._collect_aliases(schema, name)
            for each in schema.get("fields", ()):
                self._collect(each.get("type"), namespace)
            for inner in ("items", "values"):
                self._collect(schema.get(inner), namespace)
            if isinstance(kind, dict | list):
                self._collect(kind, namespace)

    def _collect_aliases(self, schema: Mapping[str, Any], name: str) -> None:
        inside = name.rpartition(".")[0]
        for alias in schema.get("aliases", ()):
            self._renamed[_full_name({"name": alias}, inside)] = name
        for each in schema.get("fields", ()):
            for alias in each.get("aliases", ()):
                self._renamed_fields.setdefault(name, {})[alias] = each["name"]

    def field_names(self, record: str) -> Mapping[str, str]:
        """By which names this schema, as the reader's, knows fields of a writer's record.

        Those that it knows by their own names are left out. The aliases of fields count only for a
        record of the same name, or one whose name is an alias.
        """
        return self._renamed_fields.get(self._renamed.get(record, record), {})

    def resolve(self, schema: Any, namespace: str) -> _Type:
        """Return the type that a declaration means within ``namespace``; raises `NotAvro`."""
        if isinstance(schema, list):
            return _Type("union", schema, namespace)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _Type(schema, schema, namespace)
            for name in (_full_name({"name": schema}, namespace), schema):
                if (found := self._named.get(name)) is not None:
                    # What it names without a namespace is in its own, not in that of this place.
                    return _Type(_kind(found["type"]), found, name.rpartition(".")[0])
            raise NotAvro(f"unknown type {schema!r}")
        if not isinstance(schema, dict) or "type" not in schema:
            raise NotAvro(f"{schema!r} is no type")
        kind = schema["type"]
        if isinstance(kind, dict | list) or (isinstance(kind, str) and kind in self._named):
            return self.resolve(kind, namespace)
        return _Type(_kind(kind), schema, _inside(schema, namespace))

    def require(self, schema: Any, namespace: str) -> None:
        """Raise `NotAvro` unless a declaration is valid in every part."""
        found = self.resolve(schema, namespace)
        if id(found.declared) in self._required:
            return
        self._required.add(id(found.declared))
        if found.kind == "union":
            parts = found.declared
        elif found.kind == "record":
            parts = [each["type"] for each in found.declared["fields"] if each["name"]]
        elif found.kind in ("array", "map"):
            parts = [found.declared["items" if found.kind == "array" else "values"]]
        elif found.kind in _PRIMITIVES | _NAMED:
            return
        else:
            raise NotAvro(f"unknown type {found.kind!r}")
        for each in parts:
            self.require(each, found.namespace)

    def branches(self, union: _Type) -> Iterator[_Type]:
        """The types of a union, each resolved when it is asked for."""
        return (self.resolve(each, union.namespace) for each in union.declared)


def _kind(declared: object) -> str:
    return "record" if declared == "error" else str(declared)


def _require_parts(schema: Mapping[str, Any], kind: str) -> None:
    """Raise `NotAvro` unless the declaration of a named type has what its kind needs."""
    name, (part, of) = schema.get("name"), _PARTS[kind]
    if not _is_name(name) or type(schema.get(part)) is not of:
        raise NotAvro(f"{kind} {name!r} has no valid name or no {part}")


def _is_name(name: object) -> bool:
    """Whether a named type may have this name. Java's Avro takes letters and digits of any script,
    and looks at no namespace.
    """
    local = name.rpartition(".")[2] if isinstance(name, str) else ""
    return (
        local != ""
        and not local[0].isdecimal()
        and all(c == "_" or c.isalpha() or c.isdecimal() for c in local)
        and max(local) <= _LAST_CHARACTER
    )


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    if "." in name:
        return name
    namespace = str(schema.get("namespace") or namespace)
    return f"{namespace}.{name}" if namespace else name


def _inside(schema: Mapping[str, Any], namespace: str) -> str:
    if schema.get("type") in _NAMED:
        return _full_name(schema, namespace).rpartition(".")[0]
    return namespace


def require_avro(schema: Any) -> None:
    """Raise `NotAvro` unless a declaration is an Avro schema in every part."""
    with _wrong_parts_as_not_avro():
        _Types(schema).require(schema, "")


def why_unreadable(reader: Any, writer: Any) -> str | None:
    """Why ``reader`` cannot read what ``writer`` wrote; None if it can.

    Raises `NotAvro` for a declaration that is no Avro schema, or needs more than `CHECKS_MAX`
    comparisons: of two unions each branch may have to be compared with each.
    """
    with _wrong_parts_as_not_avro():
        types = _Types(reader), _Types(writer)
        return _Resolution(*types).check(
            types[0].resolve(reader, ""), types[1].resolve(writer, ""), ""
        )


@contextlib.contextmanager
def _wrong_parts_as_not_avro() -> Iterator[None]:
    """Raise `NotAvro` where a part has a JSON type that Avro has not there, or is nested too
    deeply.
    """
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise NotAvro(f"{type(error).__name__}: {error}") from None


class _Resolution:
    """The comparison of a reader's schema with a writer's.

    Two records that are being compared already count as matching, so that recursive schemas end.
    """

    def __init__(self, reader: _Types, writer: _Types) -> None:
        self._reader = reader
        self._writer = writer
        self._under_way: set[tuple[int, int]] = set()
        self._checks = 0

    def _step(self) -> None:
        self._checks += 1
        if self._checks > CHECKS_MAX:
            raise NotAvro(f"to compare it takes more than {CHECKS_MAX} steps")

    def check(self, reader: _Type, writer: _Type, at: str) -> str | None:
        """Return why ``reader`` cannot read ``writer``, None if it can; ``at`` is their path."""
        self._step()
        if writer.kind == "union":
            problems = (self.check(reader, each, at) for each in self._writer.branches(writer))
            return next((problem for problem in problems if problem is not None), None)
        if reader.kind == "union":
            return self._check_branches(reader, writer, at)
        if reader.kind != writer.kind:
            if (writer.kind, reader.kind) in _PROMOTIONS:
                return None
            return f"{at or '/'}: {writer.kind} is not read as {reader.kind}"
        if reader.kind in _PRIMITIVES:
            return None
        if reader.kind in ("array", "map"):
            return self._check_part(
                reader, writer, "items" if reader.kind == "array" else "values", at
            )
        if reader.kind == "record":
            return self._check_record(reader, writer, at)
        if reader.kind in _NAMED:
            return self._check_unstructured(reader, writer, at)
        raise NotAvro(f"unknown type {reader.kind!r}")

    def _check_part(self, reader: _Type, writer: _Type, part: str, at: str) -> str | None:
        return self.check(
            self._reader.resolve(reader.declared.get(part), reader.namespace),
            self._writer.resolve(writer.declared.get(part), writer.namespace),
            f"{at}/{part}",
        )

    def _check_branches(self, union: _Type, writer: _Type, at: str) -> str | None:
        """Compare a type with the branches of the reader's union.

        A branch with the writer's full name decides alone; an enum or a fixed needs such a branch.
        """
        if writer.kind in _NAMED:
            for each in self._reader.branches(union):
                self._step()
                if each.kind == writer.kind and writer.name in each.names:
                    return self.check(each, writer, at)
        if writer.kind in ("enum", "fixed") or not any(
            self.check(each, writer, at) is None for each in self._reader.branches(union)
        ):
            return f"{at or '/'}: no branch of the reader's union reads {_say(writer)}"
        return None

    def _check_unstructured(self, reader: _Type, writer: _Type, at: str) -> str | None:
        """Compare two enums or fixed types: by name without namespace, or by an alias.

        An enum's symbols are not compared: one that the reader does not know fails when it is
        read.
        """
        short = [each.name.rpartition(".")[2] for each in (reader, writer)]
        if short[0] != short[1] and writer.name not in reader.names:
            return f"{at or '/'}: the reader expects {reader.name}, the writer wrote {writer.name}"
        if reader.kind == "fixed" and reader.declared.get("size") != writer.declared.get("size"):
            return f"{at or '/'}: the sizes of {reader.name} differ"
        return None

    def _check_record(self, reader: _Type, writer: _Type, at: str) -> str | None:
        pair = (id(reader.declared), id(writer.declared))
        if pair in self._under_way:
            return None
        self._under_way.add(pair)
        problem = self._check_fields(reader, writer, at)
        if problem is not None:
            self._under_way.discard(pair)
        return problem

    def _check_fields(self, reader: _Type, writer: _Type, at: str) -> str | None:
        names = self._reader.field_names(writer.name)
        fields = writer.declared.get("fields", ())
        written = {names.get(each["name"], each["name"]): each for each in fields}
        if len(written) < len(fields):
            return f"{at or '/'}: by the reader's aliases two fields of the writer have one name"
        for each in reader.declared.get("fields", ()):
            found = written.get(each["name"])
            path = f"{at}/{each['name']}"
            if found is None:
                if "default" not in each:
                    return f"{path}: the writer has no such field and the reader no default"
                continue
            problem = self.check(
                self._reader.resolve(each["type"], reader.namespace),
                self._writer.resolve(found["type"], writer.namespace),
                path,
            )
            if problem is not None:
                return problem
        return None


def _say(named: _Type) -> str:
    return f"{named.kind} {named.declared['name']}" if named.kind in _NAMED else named.kind
