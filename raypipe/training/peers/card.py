"""A trained model's card: README.md in its folder."""

from collections.abc import Mapping, Sequence
from typing import Any

from raypipe.training.job import Job
from raypipe.training.peers.files import opens, peer_notes

KINDS = {"encoder": "An encoder", "mono": "A monoBERT reranker", "duo": "A duoBERT reranker"}


def model_card(job: Job, made: Mapping[str, Any], table: str) -> str:
    """Markdown with the settings of the training, its data and measures, and how to open it.

    Args:
        job: the training.
        made: what raypipe.json says of the training (`made_by`).
        table: what the training's table.md says: measures, what the guard left out, data.
    """
    kind = KINDS.get(job.conventions.kind, "A pre-trained BERT")
    library = "sentence-transformers" if opens(job.conventions) else "raypipe"
    lines = ["---", f"library_name: {library}", "tags: [raypipe]", "---", ""]
    lines += [f"# {made['recipe']}", "", f"{kind}, made by `raypipe train`.", ""]
    lines += ["```python", *_opening(job), "```", ""]
    start = job.start.of_hub or job.recipe.model.start
    lines += [f"- {note}" for note in peer_notes(job.conventions)]
    lines += [
        f"- start: {start} (weights with SHA-256 {made['start_sha256']})",
        f"- step {made['step']:,} of {made['steps']:,}, {made['batch']} examples a step, loss "
        f"{made['loss']}, seed {made['seed']}",
        "",
        "raypipe.json beside this file has the settings for raypipe.",
        "",
    ]
    return "\n".join([*lines, *_lower(table)])


def _opening(job: Job) -> Sequence[str]:
    if not opens(job.conventions):
        return ["# in a recipe's models: {NAME: {path: THIS_FOLDER}}"]
    if job.conventions.kind == "encoder":
        return [
            "from sentence_transformers import SentenceTransformer",
            "",
            "model = SentenceTransformer(THIS_FOLDER)",
            "vectors = model.encode_document([PASSAGE])  # encode_query for queries",
        ]
    return [
        "from sentence_transformers import CrossEncoder",
        "",
        "scores = CrossEncoder(THIS_FOLDER).predict([(QUERY, PASSAGE)])",
    ]


def _lower(table: str) -> list[str]:
    """The lines of the table, its title one level lower."""
    return [f"#{line}" if line.startswith("#") else line for line in table.splitlines()] + [""]
