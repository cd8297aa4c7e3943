"""The explanation of each setting: the string below the field that declares it."""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from types import MappingProxyType

from counterpoise.names.options import options_of, sections_of


@cache
def explanations(settings: type) -> Mapping[str, str]:
    """The explanation of each option of a settings class and its sections, by broker.conf name."""
    strings = _strings_below_fields(settings)
    found = {each.conf: each.why or strings.get(name, "") for name, each in options_of(settings)}
    for _, section in sections_of(settings):
        found |= explanations(section)
    return MappingProxyType(found)


def _strings_below_fields(settings: type) -> dict[str, str]:
    """By field name; empty if the source is not installed."""
    try:
        module = ast.parse(inspect.getsource(sys.modules[settings.__module__]))
    except OSError:
        return {}
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and node.name == settings.__name__:
            for field, string in pairwise(node.body):
                match field, string:
                    case (ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                        found[name] = inspect.cleandoc(text).replace("\n", " ")
    return found
