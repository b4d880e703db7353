"""What a run ranks and which collection it comes from, through the stages that pass it on."""

from raypipe.config.recipe import larger_collections
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


def test_a_run_comes_from_the_larger_collection_of_its_file_or_of_what_it_is_made_of():
    stages = {
        "lucene": LuceneIndex(do="index"),
        "own": GivenRun(**READ),
        "given": GivenRun(**READ, larger_collection="all"),
        "other": GivenRun(**READ, larger_collection="more"),
        "mixed": Fuse(do="fuse", runs=("own", "given"), method="rrf"),
        "both": Fuse(do="fuse", runs=("other", "mixed"), method="rrf"),
    }
    assert larger_collections(stages) == {
        "lucene": None, "own": None, "given": "all", "other": "more", "mixed": "all",
        "both": "more",
    }  # fmt: skip
