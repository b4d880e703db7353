"""YAML text as plain data that remembers the line of each value; its variables and overrides.

`yaml.safe_load` forgets lines, keeps the last of two equal keys and unfolds aliases without a
limit, so this module walks the node tree itself.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from raypipe.errors import InputError, did_you_mean, listed, shown

MAX_BYTES = 1_000_000
"""Largest size of a recipe; the longest packaged one has about 2,000."""
MAX_VALUES = 20_000
"""Most values after aliases are unfolded: a few lines of aliases can expand to a billion values."""
MAX_DEPTH = 100
"""Most lists and mappings inside each other; PyYAML's scanner takes their number squared."""
MAX_WORD = 200
"""Most characters of a key's part in a message."""
MAX_TIME = 100
"""Most characters of a number in base 60 (1:30 is 90): reading it takes their number squared."""

Key = tuple[str | int, ...]
"""The place of a value in the data: ("stages", "bm25", "depth")."""


class Problem(NamedTuple):
    """A problem with the value at a key: expected, found, remedy."""

    key: Key
    text: str


@dataclass
class Document:
    """Dictionaries, lists and scalars; keys are always text; `origins` has each value's line."""

    data: Any = None
    origins: dict[Key, str] = field(default_factory=dict)
    """"recipe.yaml: line 12", or the override that set it."""
    problems: list[Problem] = field(default_factory=list)

    def describe(self, problem: Problem) -> str:
        """One line: place, dotted key, what is wrong. A missing key has the place of its parent."""
        key = problem.key
        while key and key not in self.origins:
            key = key[:-1]
        parts = [self.origins[key], dotted(problem.key), problem.text]
        return ": ".join(part for part in parts if part)


def in_words(value: object) -> str:
    """A YAML value in plain words: "text 'ten'", "a list", "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"text {shown(value)}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int | float):
        return shown(value)
    return f"{value}, which YAML reads as a {type(value).__name__}: quote it"


def dotted(key: Key) -> str:
    """The key as written in an override, `stages.bm25.depth`; very long words are cut."""
    words = (str(part) for part in key)
    return ".".join(word if len(word) <= MAX_WORD else f"{word[:MAX_WORD]}..." for word in words)


def parse_yaml(text: str, *, origin: Callable[[int], str]) -> Document:
    """The document in the text; its problems list keys given twice and unknown tags.

    Args:
        text: YAML 1.1, at most one document, of at most `MAX_BYTES` and `MAX_VALUES`.
        origin: line number from 1 -> the beginning of a message about that line.

    Raises:
        InputError: text that is not YAML, too large, nested too deeply or recursive.
    """
    if len(text) > MAX_BYTES:
        raise InputError(
            f"{origin(1)}: expected at most {MAX_BYTES:,} characters, found {len(text):,};"
            " queries and passages belong in files of their own"
        )
    try:
        node = (_composed_before if len(text) <= MAX_KEPT else _composed)(text)
        builder = _Builder(origin)
        if node is not None:
            builder.document.data = builder.build(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        reason = " ".join(part for part in (error.context, error.problem) if part)
        around = "".join(text.splitlines()[max(0, line - 2) : line])
        hint = '; inside { } and [ ] quote "${VAR}"' if "${" in around else ""
        raise InputError(f"{origin(line)}: not YAML: {reason}{hint}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{origin(1)}: not YAML: {' '.join(str(error).split())}") from None
    except _TooMany as error:
        line = error.args[0]
        raise InputError(f"{origin(line)}: more than {MAX_VALUES:,} values") from None
    except RecursionError:
        raise InputError(f"{origin(1)}: nested too deeply to be a recipe") from None
    builder.document.origins.setdefault((), origin(1))
    return builder.document


class _TooMany(Exception):
    """More nodes than a recipe may have; its argument is the line of the first too many."""


def _composed(text: str) -> Node | None:
    """The node tree of the text's one document.

    Raises:
        _TooMany: as soon as it has too many nodes.
        RecursionError: as soon as it is nested too deeply.
    """
    loader = yaml.SafeLoader(text)
    compose, num_nodes, depth = loader.compose_node, 0, 0

    def counted(parent: Node | None, index: Any) -> Node | None:
        nonlocal num_nodes, depth
        num_nodes += 1
        if num_nodes > 2 * MAX_VALUES + 1:  # a key is a node too
            raise _TooMany(loader.line + 1)
        if depth > MAX_DEPTH:
            raise RecursionError
        depth += 1
        node: Node | None = compose(parent, index)
        depth -= 1
        return node

    try:
        loader.compose_node = counted  # type: ignore[method-assign]
        return loader.get_single_node()
    finally:
        loader.dispose()


_composed_before = lru_cache(8)(_composed)
"""The same of a text met again: a command reads the recipe of its workspace several times."""
MAX_KEPT = 20_000
"""Most characters of a text whose tree is kept."""


class _Builder:
    """The state of one walk over a node tree."""

    def __init__(self, origin: Callable[[int], str]) -> None:
        self.document = Document()
        self._origin = origin
        self._num_values = 0
        self._open: set[int] = set()

    def build(self, node: Node, key: Key) -> Any:
        """The node's value; a new copy wherever an alias repeats it."""
        where = self._origin(node.start_mark.line + 1)
        self.document.origins.setdefault(key, where)
        self._num_values += 1
        if self._num_values > MAX_VALUES:
            raise InputError(f"{where}: more than {MAX_VALUES:,} values with aliases unfolded")
        if id(node) in self._open:
            raise InputError(f"{where}: {dotted(key)}: an alias inside its own anchor")
        if isinstance(node, ScalarNode):
            return self._scalar(node, key)
        self._open.add(id(node))
        value = self._inside(node, key)
        self._open.discard(id(node))
        return value

    def _inside(self, node: Node, key: Key) -> Any:
        if isinstance(node, SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.build(child, (*key, i)) for i, child in enumerate(node.value)]
        if isinstance(node, MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, key)
        self._problem(key, f"the tag {node.tag!r} has no meaning in a recipe; remove it")
        return None

    def _mapping(self, node: MappingNode, key: Key) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, ScalarNode):
                self._problem(key, "expected a word as a key, found a list or mapping")
                continue
            name, inner = name_node.value, (*key, name_node.value)
            line = name_node.start_mark.line + 1
            if name in mapping:
                text = f"given again at {self._origin(line)}; keep one of them"
                self._problem(inner, text)
                continue
            self.document.origins[inner] = self._origin(line)
            mapping[name] = self.build(value_node, inner)
        return mapping

    def _scalar(self, node: ScalarNode, key: Key) -> Any:
        number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if number and ":" in node.value and len(node.value) > MAX_TIME:
            self._problem(
                key, f"expected text or a number, found {in_words(node.value)}; quote text"
            )
            return node.value
        try:
            return SafeConstructor().construct_object(node)
        except (ValueError, OverflowError, yaml.YAMLError) as error:
            reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
            self._problem(key, f"{in_words(node.value)}: {reason}; quote it if it is text")
            return node.value

    def _problem(self, key: Key, text: str) -> None:
        self.document.problems.append(Problem(key, text))


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


_NAMED = (("queries",), ("models",), ("stages",))
"""Sections whose keys the recipe's author chooses: an override changes an entry but adds none."""


MAX_SHOWN = 200
"""Most characters of an override in a message; each of its problems repeats it."""


def apply_overrides(document: Document, overrides: Sequence[str]) -> list[str]:
    """Set each KEY=VALUE in place, in order; returns the problems, each with its override.

    VALUE is YAML, so `[a, b]`, `true` and `10` have their types, and an empty value is null.
    Entries of a list are addressed by their index from 0. Unknown keys are found when the recipe is
    checked.
    """
    problems = []
    for text in overrides:
        try:
            _apply(document, text)
        except InputError as error:
            problems += error.problems
    return problems


def _apply(document: Document, text: str) -> None:
    """Set the value of KEY=VALUE.

    Raises:
        InputError: it has no key, its value is not YAML, or the recipe has nothing of that name.
    """
    origin = _origin(text)
    name, equals, value = text.partition("=")
    key = tuple(name.strip().split("."))
    if not equals or not all(key):
        raise InputError(f"{origin}: expected KEY=VALUE, such as stages.bm25.depth=10")
    _set(document, key, parse_yaml(value, origin=lambda line: origin), origin)


def _origin(text: str) -> str:
    return f"override {text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '...'}"


def _set(document: Document, parts: Key, value: Document, origin: str) -> None:
    """Walk to the last part's parent, creating missing mappings, and set the value."""
    parent: Any = document.data
    key: Key = ()
    for part in map(str, parts[:-1]):
        step = _step(parent, key, part, origin)
        if _absent(parent, step):
            parent[step] = {}
            document.origins[(*key, step)] = origin
        parent, key = parent[step], (*key, step)
    step = _step(parent, key, str(parts[-1]), origin)
    parent[step], key = value.data, (*key, step)
    others = {k: v for k, v in document.origins.items() if k[: len(key)] != key}
    document.origins = others | {(*key, *k): v for k, v in value.origins.items()}
    document.problems += [Problem((*key, *k), problem) for k, problem in value.problems]


def _absent(parent: Any, step: str | int) -> bool:
    return isinstance(parent, dict) and parent.get(str(step)) is None


def _step(parent: Any, key: Key, part: str, origin: str) -> str | int:
    """The part as a key of the parent: a name, or the index of a list.

    Raises:
        InputError: the parent has nothing of that name.
    """
    where = f"{origin}: {dotted((*key, part))}"
    if isinstance(parent, list):
        if re.fullmatch(r"[0-9]{1,6}", part) and int(part) < len(parent):
            return int(part)
        raise InputError(f"{where}: expected an index below {len(parent)}, found {part!r}")
    if not isinstance(parent, dict):
        raise InputError(
            f"{where}: {dotted(key) or 'the recipe'} is {in_words(parent)}, which has no keys"
        )
    if key in _NAMED and part not in parent:
        raise InputError(
            f"{where}: no such name{did_you_mean(part, parent)} {dotted(key)} has {listed(parent)}"
        )
    return part
