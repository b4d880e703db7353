"""Scenarios of a workspace: its identity, refs, summary, runs and a whole invocation's frame."""

import gzip
import json

import pyarrow as pa

from crashes.of_storage import SPEC, computed, publish, stores
from crashes.trial import Scenario
from raypipe import schema
from raypipe.driver.invocation import invocation
from raypipe.driver.summaries import read_results
from raypipe.driver.workspace import Workspace, read_refs
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.storage.files import replace_file
from raypipe.storage.records import hash_file


def nothing(root):
    pass


def new(root):
    Workspace(root).mark()


def look_at_identity(root):
    """Whether there is one; `Workspace` would make it."""
    path = root / "workspace.json"
    return {"identity": path.exists() and bool(json.loads(path.read_bytes())["body"]["id"])}


def begun(root):
    """Refers to a complete store; a summary and a table stand."""
    computed(root)
    publish(root)
    work = Workspace(root)
    work.write_summary({"status": "failed", "run": "first"})
    replace_file(root / "table.md", b"| old |\n")
    write_runs(root, 1.0)


def refer(root):
    """Another version of the store; the one before stays a source until the end."""
    work = Workspace(root)
    work.refer("toy", "f" * 32)
    work.refer("other", "a" * 32)
    work.forget_sources()


def look_at_refs(root):
    work = Workspace(root)
    refs = read_refs(stores(root), work.id)
    return {"stores": refs.stores, "sources": refs.sources}


def refs_between(part, seen):
    """The new version before the other store; the old version as a source meanwhile."""
    return seen in ({"toy": "f" * 32}, {"toy": SPEC.fingerprint()})


def summarise(root):
    Workspace(root).write_summary({"status": "failed", "run": "second"})
    replace_file(root / "table.md", b"| new |\n")


def look_at_summary(root):
    table = (root / "table.md").read_bytes()
    return {"summary": Workspace(root).read_summary(), "table": table}


def write_runs(root, scale=2.0):
    columns = [["q"] * 3, ["a", "b", "c"], [1, 2, 3], [scale * x for x in (3.0, 2.0, 1.0)]]
    run = pa.table(dict(zip(schema.RUN_FILE.names, columns, strict=True)), schema=schema.RUN_FILE)
    write_trec(run, root / "runs" / "test" / "bm25.trec", tag=f"x{scale}")
    write_msmarco(run.slice(0, 2 if scale == 2 else 3), root / "runs" / "test" / "bm25.tsv.gz")


def look_at_runs(root):
    folder = root / "runs" / "test"
    packed = folder / "bm25.tsv.gz"
    return {
        "trec": (folder / "bm25.trec").read_bytes(),
        "tsv": gzip.decompress(packed.read_bytes()),
    }


def invoke(root):
    """What surrounds the work of every invocation: lease, summary, sweep."""
    work = Workspace(root)
    with invocation(work, "toy") as summary:
        work.refer("toy", SPEC.fingerprint())
        nonce = work.leave_nonce("toy", SPEC.fingerprint())
        work.take_nonce_back(nonce)
        summary |= {"rows": 4, "stores": []}


def look_at_invocation(root):
    found = Workspace(root).read_summary()
    return {"ended": found["status"], "rows": found.get("rows")}


def stands(root):
    """Results stand, of a table."""
    with_results(root, b"| old |\n")


def with_results(root, table=b"| new |\n"):
    """An invocation that writes a table over, and a file whose results it is."""
    work = Workspace(root)
    with invocation(work, "toy") as summary:
        work.work_begins()
        replace_file(root / "table.md", table)
        work.wrote(root / "table.md")
        summary["systems"] = {"table": table.decode()}


def look_at_results(root):
    """The results that stand, and whether the files have the content that they name."""
    results = read_results(root)
    if results is None:
        return {"results": None, "true": True}
    true = {name: hash_file(root / name) for name in results["files"]} == results["files"]
    return {"results": results["systems"], "true": true}


def none_between(part, seen):
    return part == "results" and seen is None


def running_or_failed(part, seen):
    return part == "ended" and seen in ("running", "failed")


SCENARIOS = [
    Scenario("a new workspace", nothing, new, look_at_identity, own=r"workspace\.json"),
    Scenario("refs", begun, refer, look_at_refs, refs_between),
    Scenario("the summary and the table", begun, summarise, look_at_summary),
    Scenario("run files, plain and packed", begun, write_runs, look_at_runs),
    Scenario("the frame of an invocation", begun, invoke, look_at_invocation, running_or_failed,
             own=r"summary\.json"),
    Scenario("results that stand", stands, with_results, look_at_results, none_between,
             own=r"(summary|results)\.json"),
]  # fmt: skip
