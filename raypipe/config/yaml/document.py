"""YAML text as plain data that remembers the line of each value.

`yaml.safe_load` forgets lines, keeps the last of two equal keys and unfolds aliases without a
limit, so this module walks the node tree itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from raypipe.config.yaml.words import shown
from raypipe.errors import InputError

MAX_BYTES = 1_000_000
"""Largest size of a recipe; the longest packaged one has about 2,000."""
MAX_VALUES = 20_000
"""Most values after aliases are unfolded: a few lines of aliases can expand to a billion values."""
MAX_WORD = 200
"""Most characters of a key's part in a message."""
MAX_TIME = 100
"""Most characters of a number in base 60 (1:30 is 90): reading it takes their number squared."""

Key = tuple[str | int, ...]
"""The place of a value in the data: ("stages", "bm25", "depth")."""


class Problem(NamedTuple):
    """What is wrong with the value at a key: expected, found, remedy."""

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
        node = _composed(text, origin)
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
    except RecursionError:
        raise InputError(f"{origin(1)}: nested too deeply to be a recipe") from None
    builder.document.origins.setdefault((), origin(1))
    return builder.document


def _composed(text: str, origin: Callable[[int], str]) -> Node | None:
    """The node tree of the text's one document; InputError as soon as it has too many nodes."""
    loader = yaml.SafeLoader(text)
    compose, num_nodes = loader.compose_node, 0

    def counted(parent: Node | None, index: Any) -> Node | None:
        nonlocal num_nodes
        num_nodes += 1
        if num_nodes > 2 * MAX_VALUES + 1:  # a key is a node too
            where = origin(loader.line + 1)
            raise InputError(f"{where}: more than {MAX_VALUES:,} values")
        node: Node | None = compose(parent, index)
        return node

    try:
        loader.compose_node = counted  # type: ignore[method-assign]
        return loader.get_single_node()
    finally:
        loader.dispose()


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
            self._problem(key, f"expected text or a number, found {shown(node.value)}; quote text")
            return node.value
        try:
            return SafeConstructor().construct_object(node)
        except (ValueError, OverflowError, yaml.YAMLError) as error:
            reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
            self._problem(key, f"{shown(node.value)}: {reason}; quote it if it is text")
            return node.value

    def _problem(self, key: Key, text: str) -> None:
        self.document.problems.append(Problem(key, text))
