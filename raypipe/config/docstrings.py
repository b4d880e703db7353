"""What the docstrings below the fields of a section say, for references and editors."""

import ast
import inspect
import textwrap

from raypipe.config.fields import Section


def texts_of(section: type[Section]) -> dict[str, str]:
    """Field -> the docstring below it, on one line; of inherited fields too."""
    found = {}
    for kind in reversed(section.__mro__[: section.__mro__.index(Section)]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and told:
                assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                found[field.target.id] = " ".join(str(below.value.value).split())
    return found
