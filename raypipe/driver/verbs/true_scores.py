"""The true scores of a workspace's run file, whose ties the file lowers."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.driver.summaries import read_summary, standing_of
from raypipe.driver.upkeep.status import open_workspace
from raypipe.evaluation.ties import Ties, tie_report
from raypipe.names import of_stage
from raypipe.storage.ledger import read_manifest
from raypipe.storage.store import Stored


def true_ties(source: Path | pa.Table, qrels: pa.Table, measures: Sequence[str]) -> Ties:
    """The ties of a run, and each measure under every order of them, as `tie_report` has them.

    A run file in its workspace has the ties of its stored scores, any other file those that it
    shows, a table (schema.RUN_FILE) those of its own scores.

    Raises:
        InputError: a file that is not a run.
    """
    stored = true_scores(source) if isinstance(source, Path) else None
    return tie_report(source, qrels, measures, stored=stored)


def true_scores(path: Path) -> pa.Table | None:
    """The stored run (schema.RUN) of WORKSPACE/runs/SET/SYSTEM.trec, packed or not, in its order.

    It is None for any other file, and where the workspace's last invocation has no such store. The
    caller compares it with the file, which may have been changed since.
    """
    path = path.absolute()
    folder = path.parents[2] if len(path.parents) > 2 else path.parent
    system, _, ending = path.name.partition(".")
    if ending not in ("trec", "trec.gz") or path.parents[1].name != "runs":
        return None
    if not (folder / "workspace.json").is_file() or not (folder / "recipe.yaml").is_file():
        return None
    name = str(of_stage(system, path.parent.name))
    summary = standing_of(read_summary(folder) or {})
    used = dict(each.split("/") for each in summary.get("stores", ()))
    if name not in used:
        return None
    stores = open_workspace(folder).stores
    manifest = read_manifest(stores, name, used[name])
    return None if manifest is None else Stored(stores, manifest).whole_table(schema.RUN)
