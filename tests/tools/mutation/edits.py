"""Which stretches of a line may be changed, and into what, from the syntax tree."""

import ast
from collections.abc import Iterator

COMPARE = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}
OTHER_NAME |= {"minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin"}
LIBRARY_DEFAULTS = {"axis", "side", "kind", "reverse", "key", "default", "initial", "dim", "dtype"}
LIBRARY_DEFAULTS |= {"missing_ok", "sort_keys", "keepdim", "ascending", "start", "maxsplit"}
CHECKED_ONLY = {"strict", "frozen", "slots"}
"""Keywords that only refuse what the code does not do."""
SILENT_CALLS = {"debug", "info", "warning", "error", "exception", "log", "print", "echo", "warn"}
MESSAGE_NAMES = {"shown", "message", "where", "text", "hint", "remedy", "said", "listed", "why"}
MESSAGE_FUNCTIONS = {"__str__", "__repr__", "describe", "explain"}

Edit = tuple[str, int, int, int, str, bool]


class Finder:
    """Walks a syntax tree and yields (function, line, start, stop, text, swaps)."""

    def __init__(self, lines: list[bytes], defaults: dict[str, set[str]]) -> None:
        self.lines = lines
        self.defaults = defaults

    def of(self, tree: ast.Module) -> Iterator[Edit]:
        yield from self._body(tree.body, "<module>", "")

    def _body(self, body: list[ast.stmt], function: str, prefix: str) -> Iterator[Edit]:
        for node in body:
            yield from self._statement(node, function, prefix, only=len(body) == 1)

    def _statement(self, node: ast.stmt, function: str, prefix: str, only: bool) -> Iterator[Edit]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in MESSAGE_FUNCTIONS:
                return
            name = prefix + node.name
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                yield from self._expression(default, name)
            yield from self._body(node.body, name, f"{name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from self._body(node.body, function, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
            return
        elif isinstance(node, ast.Raise):
            yield from self._deleted(node, function)
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call) and not _is_silent(node.value):
                yield from self._deleted(node, function)
                yield from self._expression(node.value, function)
            elif isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Await):
                yield from self._expression(node.value, function)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None and not _is_message(node.target):
                yield from self._expression(node.value, function)
        elif isinstance(node, ast.Assign):
            alias = function == "<module>" and isinstance(node.value, ast.Subscript | ast.BinOp)
            if not alias and not any(_is_message(target) for target in node.targets):
                yield from self._expression(node.value, function)
        elif isinstance(node, ast.If) and "__name__" in ast.dump(node.test):
            return
        else:
            if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
                old, new = ARITHMETIC[type(node.op)]
                if not _is_text(node.value) and not _is_message(node.target):
                    yield from self._between(node.target, node.value, old, new, function)
            for name, value in ast.iter_fields(node):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.stmt):
                        yield from self._statement(child, function, prefix, only)
                    elif isinstance(child, ast.ExceptHandler | ast.match_case):
                        yield from self._body(child.body, function, prefix)
                    elif isinstance(child, ast.withitem):
                        yield from self._expression(child.context_expr, function)
                    elif isinstance(child, ast.expr) and name not in ("target", "annotation"):
                        yield from self._expression(child, function)

    def _deleted(self, node: ast.stmt, function: str) -> Iterator[Edit]:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            yield function, node.lineno, node.col_offset, node.end_col_offset, "pass", False

    def _expression(self, node: ast.expr, function: str) -> Iterator[Edit]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _is_silent(node)):
            return
        yield from self._here(node, function)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                yield from self._expression(child.iter, function)
                for test in child.ifs:
                    yield from self._expression(test, function)
            elif isinstance(child, ast.keyword):
                if child.arg not in CHECKED_ONLY:
                    yield from self._expression(child.value, function)
            elif isinstance(child, ast.expr):
                yield from self._expression(child, function)

    def _here(self, node: ast.expr, function: str) -> Iterator[Edit]:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                old, others = COMPARE[type(op)]
                for new in others:
                    yield from self._between(left, right, old, new, function)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            if not _is_text(node.left) and not _is_text(node.right):
                old, new = ARITHMETIC[type(node.op)]
                yield from self._between(node.left, node.right, old, new, function)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._between(left, right, old, new, function)
        elif isinstance(node, ast.UnaryOp):
            yield from self._edit(node, node.operand, function)
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            yield from self._constant(node, function)
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if bound is not None:
                    yield from self._edit(bound, None, function)
        elif isinstance(node, ast.Call):
            yield from self._call(node, function)

    def _constant(self, node: ast.Constant, function: str) -> Iterator[Edit]:
        if isinstance(node.value, bool):
            yield from self._write(node, str(not node.value), function)
        else:
            for value in dict.fromkeys((node.value + 1, type(node.value)(0))):
                yield from self._write(node, repr(value), function)

    def _call(self, node: ast.Call, function: str) -> Iterator[Edit]:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in OTHER_NAME and called.end_col_offset is not None:
            stop = called.end_col_offset
            yield function, called.end_lineno or 0, stop - len(name), stop, OTHER_NAME[name], False
        if name == "sorted" and not any(word.arg == "reverse" for word in node.keywords):
            turned = self._text(node.args[0]) + ", reverse=True"
            yield from self._write(node.args[0], turned, function)
        first, second, *_ = [*node.args, None, None]
        if first and second and not _is_text(first) and not _is_text(second):
            if not isinstance(first, ast.Starred) and first.lineno == second.end_lineno:
                joined = self._text(second) + ", " + self._text(first)
                yield (
                    function,
                    first.lineno,
                    first.col_offset,
                    second.end_col_offset or 0,
                    joined,
                    True,
                )
        for word in node.keywords:
            known = self.defaults.get(name, LIBRARY_DEFAULTS)
            if word.arg in known and word.lineno == word.end_lineno:
                yield from self._dropped(word, function)

    def _dropped(self, word: ast.keyword, function: str) -> Iterator[Edit]:
        line, start, stop = self.lines[word.lineno - 1], word.col_offset, word.end_col_offset or 0
        if line[stop : stop + 2] == b", ":
            stop += 2
        elif line[stop : stop + 1] == b",":
            stop += 1
        elif line[start - 2 : start] == b", ":
            start -= 2
        yield function, word.lineno, start, stop, "", False

    def _between(
        self, left: ast.expr, right: ast.expr, old: str, new: str, function: str
    ) -> Iterator[Edit]:
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return
        gap = self.lines[right.lineno - 1][left.end_col_offset : right.col_offset]
        at = gap.find(old.encode())
        if at >= 0:
            start = left.end_col_offset + at
            yield function, right.lineno, start, start + len(old), new, False

    def _edit(self, node: ast.expr, kept: ast.expr | None, function: str) -> Iterator[Edit]:
        yield from self._write(node, self._text(kept) if kept is not None else "", function)

    def _write(self, node: ast.expr, text: str, function: str) -> Iterator[Edit]:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            yield function, node.lineno, node.col_offset, node.end_col_offset, text, False

    def _text(self, node: ast.expr) -> str:
        return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _is_silent(call: ast.Call) -> bool:
    """Whether the call only says something: a logged line, or words joined for a message."""
    called = call.func
    if isinstance(called, ast.Attribute):
        joins = called.attr == "join" and isinstance(called.value, ast.Constant)
        return called.attr in SILENT_CALLS or joins
    return isinstance(called, ast.Name) and called.id in SILENT_CALLS


def _is_message(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id in MESSAGE_NAMES


def _is_text(node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, ast.JoinedStr)
