"""The text of a training's table.md."""

from collections.abc import Sequence
from typing import Any

from raypipe.markdown import markdown_table
from raypipe.training.checkpoints import best_of, measured_sets
from raypipe.training.job import Job


def training_table(
    job: Job, history: Sequence[dict[str, Any]], notes: Sequence[str], saw: str
) -> str:
    """The measurements and the training data, as Markdown."""
    recipe = job.recipe
    phase = "" if job.phase is None else f": {job.phase}"
    lines = [f"# {recipe.name}{phase}", ""]
    if history:
        names = measured_sets(recipe)
        assert recipe.validate_ is not None
        on = "held-out inputs" if job.is_pretraining else "dev sets"
        measure = recipe.validate_.measure
        lines += [f"{measure} on {on}:", ""]
        best = best_of(history, measure) if len(history) > 1 else None
        rows = [
            [
                f"{each['step']:,}{' (chosen)' if each is best else ''}",
                *(f"{value:.4f}" for value in (*each["values"], each["mean"])),
            ]
            for each in history
        ]
        lines += markdown_table(["step", *names, "mean"], rows)
        chosen = "the model is the checkpoint that is best here, so these are not test results"
        once = "measured once: nothing was chosen on these queries"
        if job.is_pretraining:
            once = "measured once: nothing was chosen on these inputs"
        lines += ["", f"- {chosen if len(history) > 1 else once}"]
    lines += [f"- {line}" for line in notes]
    lines.append(f"- its weights have seen: {saw}")
    return "\n".join(lines) + "\n"
