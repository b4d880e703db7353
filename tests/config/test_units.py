"""What a run ranks, through the stages that pass it on."""

from raypipe.config.rules import units_of
from raypipe.kinds.documents import DocumentRun
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.lucene import LuceneIndex
from raypipe.kinds.read import GivenRun

READ = {"do": "read", "runs": {"dev": "a.trec"}}


def test_a_fused_run_ranks_what_the_first_known_of_its_runs_does():
    stages = {
        "lucene": LuceneIndex(do="index"),
        "passages": GivenRun(**READ),
        "documents": GivenRun(**READ, of="documents"),
        "broken": None,
        "maxp": DocumentRun(do="documents", run="passages", method="maxp"),
        "one": Fuse(do="fuse", runs=("maxp", "documents"), method="rrf"),
        "two": Fuse(do="fuse", runs=("broken", "passages"), method="rrf"),
        "three": Fuse(do="fuse", runs=("broken", "absent"), method="rrf"),
    }
    assert units_of(stages) == {
        "lucene": "passages",
        "passages": "passages",
        "documents": "documents",
        "broken": None,
        "maxp": "documents",
        "one": "documents",
        "two": "passages",
        "three": None,
    }


def test_a_run_that_names_what_is_below_it_is_not_known():
    runs = {"a": Fuse(do="fuse", runs=("b", "a"), method="rrf")}
    runs["b"] = Fuse(do="fuse", runs=("a", "b"), method="rrf")
    assert units_of(runs) == {"a": None, "b": None}
