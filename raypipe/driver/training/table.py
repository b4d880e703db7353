"""The text of a training's table.md."""

from collections.abc import Mapping, Sequence

from raypipe.storage.records import Json
from raypipe.training.job import Job


def training_table(
    job: Job, history: Sequence[Mapping[str, Json]], notes: Sequence[str], saw: str
) -> str:
    """The measurements and the training data, as Markdown."""
    recipe = job.recipe
    phase = "" if job.phase is None else f": {job.phase}"
    lines = [f"# {recipe.name}{phase}", ""]
    if history:
        names = list(recipe.dev)
        assert recipe.validate_ is not None
        lines += [f"{recipe.validate_.measure} on dev sets:", ""]
        lines += [f"| step | {' | '.join(names)} | mean |", f"|{'---|' * (len(names) + 2)}"]
        best = max(history, key=lambda each: each["mean"])
        for each in history:
            values = " | ".join(f"{value:.4f}" for value in each["values"])
            mark = " (chosen)" if each is best and len(history) > 1 else ""
            lines.append(f"| {each['step']:,}{mark} | {values} | {each['mean']:.4f} |")
        chosen = "the model is the checkpoint that is best here, so these are not test results"
        once = "measured once: nothing was chosen on these queries"
        lines += ["", f"- {chosen if len(history) > 1 else once}"]
    lines += [f"- {line}" for line in notes]
    lines.append(f"- its weights have seen: {saw}")
    return "\n".join(lines) + "\n"
