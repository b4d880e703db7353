"""Basis of a teacher's scores: a run file, or a workspace of `score`."""

from pathlib import Path

from raypipe.config import load_recipe
from raypipe.config.stages import MonoScore
from raypipe.errors import InputError


def teacher_of(path: str) -> tuple[str, int | None]:
    """The run file, and the last rank that the teacher scored; None if it scored all.

    Of a workspace, only the first k0 candidates of each query count: `score` keeps the others in
    another run's order, and their scores are not the teacher's.

    Raises:
        InputError: a folder that does not hold exactly one run of one monoBERT model.
    """
    folder = Path(path)
    if not folder.is_dir():
        return path, None
    resolved = folder / "recipe.yaml"
    stages = load_recipe(resolved).stages if resolved.exists() else {}
    monos = {name: s.k0 for name, s in stages.items() if isinstance(s, MonoScore)}
    found = sorted(file for name in monos for file in folder.glob(f"runs/*/{name}.trec*"))
    if len(found) != 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found) or "none"
        raise InputError(
            f"{path}: expected a workspace of `raypipe score` with one monoBERT model's run over "
            f"one query set, found {names}; name the run file itself, made with --tail drop"
        )
    return str(found[0]), monos[found[0].name.partition(".")[0]]
