"""`${VAR}` in the strings of a recipe, from a mapping that the caller gives."""

import re
from collections.abc import Mapping
from typing import Any

from raypipe.config.yaml.document import Document, Key, Problem, dotted

_PATTERN = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


def expand(document: Document, env: Mapping[str, str]) -> list[Problem]:
    """Replace every `${VAR}` in place; `$${` becomes `${`, and values are not expanded again.

    Keys are left as they are. Returns one problem for each variable that is not set, with all
    the places that use it, and one for each `${` that names no variable.
    """
    unset: dict[str, list[Key]] = {}
    problems: list[Problem] = []

    def value_of(match: re.Match[str], key: Key) -> str:
        name = match.group(1)
        if match.group() == "$${":
            return "${"
        if name is None:
            text = "expected ${NAME} with letters, digits and _; write $${ for a plain ${"
            problems.append(Problem(key, text))
        elif name in env:
            return env[name]
        else:
            unset.setdefault(name, []).append(key)
        return match.group()

    def walk(value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: walk(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, (*key, i)) for i, inner in enumerate(value)]
        if isinstance(value, str):
            return _PATTERN.sub(lambda match: value_of(match, key), value)
        return value

    document.data = walk(document.data, ())
    return problems + [_unset(name, keys) for name, keys in unset.items()]


def escaped(value: Any) -> Any:
    """The value with its strings written so that `expand` gives them back."""
    if isinstance(value, dict):
        return {name: escaped(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(inner) for inner in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _unset(name: str, keys: list[Key]) -> Problem:
    others = f" (also in {', '.join(map(dotted, keys[1:]))})" if keys[1:] else ""
    text = f"the variable ${{{name}}} is not set{others}; set {name} or write the value itself"
    return Problem(keys[0], text)
