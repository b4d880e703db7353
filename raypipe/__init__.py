"""Distributed batch indexing and scoring for passage and document ranking.

The names below are the Python API: numpy arrays, Arrow tables and lists of texts in and out,
without Ray unless one is opened; only `run` and `open_index` need a workspace. Each name is
imported when it is first used, so that `import raypipe` loads nothing else.
"""

from typing import TYPE_CHECKING

from raypipe.package import VERSION

__version__ = VERSION
__all__ = [
    "Recipe",
    "compare",
    "encode",
    "evaluate",
    "fuse",
    "open_index",
    "open_ray",
    "open_reranker",
    "read_run",
    "rerank",
    "run",
    "score",
    "search",
    "write_run",
]

if TYPE_CHECKING:
    from raypipe.api.files import read_run, write_run
    from raypipe.api.fusion import fuse
    from raypipe.api.invocation import Recipe, run
    from raypipe.api.measures import compare, evaluate
    from raypipe.api.opened.index import open_index
    from raypipe.api.opened.ray import open_ray
    from raypipe.api.opened.reranker import open_reranker
    from raypipe.api.reranking import rerank
    from raypipe.api.scoring import score
    from raypipe.api.searching import encode, search
else:
    _MODULES = {
        "Recipe": "invocation",
        "compare": "measures",
        "encode": "searching",
        "evaluate": "measures",
        "fuse": "fusion",
        "open_index": "opened.index",
        "open_ray": "opened.ray",
        "open_reranker": "opened.reranker",
        "read_run": "files",
        "rerank": "reranking",
        "run": "invocation",
        "score": "scoring",
        "search": "searching",
        "write_run": "files",
    }

    def __getattr__(name):
        """One of the names above, imported now."""
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"raypipe.api.{_MODULES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        """The names already loaded, and the names above."""
        return sorted({*globals(), *__all__})
