"""Distributed batch indexing and scoring for passage and document ranking.

The names below are the Python API: numpy arrays, Arrow tables and lists of texts in and out,
without Ray unless a recipe names it as its backend; only `run` and `open_index` need a workspace.
Each name is imported when it is first used, so that `import raypipe` loads nothing else. It must
not: `raypipe.isolation` says why.
"""

TYPE_CHECKING = False  # mypy takes a variable of this name for true
__version__: str
__all__ = [
    "compare",
    "encode",
    "evaluate",
    "fuse",
    "open_index",
    "read_run",
    "rerank",
    "run",
    "score",
    "search",
    "write_run",
]

if TYPE_CHECKING:
    from raypipe.api.models import encode, rerank, score, search
    from raypipe.api.runs import compare, evaluate, fuse, read_run, write_run
    from raypipe.api.workspace import open_index, run
else:
    _MODULES = {
        "compare": "runs",
        "encode": "models",
        "evaluate": "runs",
        "fuse": "runs",
        "open_index": "workspace",
        "read_run": "runs",
        "rerank": "models",
        "run": "workspace",
        "score": "models",
        "search": "models",
        "write_run": "runs",
    }

    def __getattr__(name):
        """One of the names above, or the version, imported now."""
        from importlib import import_module

        if name == "__version__":
            return import_module("raypipe.package").VERSION
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"raypipe.api.{_MODULES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        """The names already loaded, and the names above."""
        return sorted({*globals(), *__all__})
