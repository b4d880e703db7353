from raypipe.config.recipe import larger_collections
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.lucene import LuceneIndex
from raypipe.kinds.read import GivenRun

RUNS = {"dev": "a.trec"}


def test_a_run_comes_from_the_larger_collection_of_its_file_or_of_what_it_is_made_of():
    stages = {
        "lucene": LuceneIndex(do="index"),
        "own": GivenRun(do="read", runs=RUNS),
        "given": GivenRun(do="read", runs=RUNS, larger_collection="all"),
        "other": GivenRun(do="read", runs=RUNS, larger_collection="more"),
        "mixed": Fuse(do="fuse", runs=("own", "given"), method="rrf"),
        "both": Fuse(do="fuse", runs=("other", "mixed"), method="rrf"),
    }
    assert larger_collections(stages) == {
        "lucene": None, "own": None, "given": "all", "other": "more", "mixed": "all",
        "both": "more",
    }  # fmt: skip
