"""What a run ranks, through the stages that pass it on."""

from raypipe.config.pipeline.kinds import Documents, Fuse, Index, Read
from raypipe.config.pipeline.units import unit_of

READ = {"do": "read", "runs": {"dev": "a.trec"}}


def test_a_fused_run_ranks_what_the_first_known_of_its_runs_does():
    stages = {
        "lucene": Index(do="index"),
        "passages": Read(**READ),
        "documents": Read(**READ, of="documents"),
        "broken": None,
        "maxp": Documents(do="documents", run="passages", method="maxp"),
        "one": Fuse(do="fuse", runs=("maxp", "documents"), method="rrf"),
        "two": Fuse(do="fuse", runs=("broken", "passages"), method="rrf"),
        "three": Fuse(do="fuse", runs=("broken", "absent"), method="rrf"),
    }
    units = {name: unit_of(name, stages) for name in stages}
    assert units == {
        "lucene": "passages",
        "passages": "passages",
        "documents": "documents",
        "broken": None,
        "maxp": "documents",
        "one": "documents",
        "two": "passages",
        "three": None,
    }


def test_runs_that_name_each_other_end():
    runs = {"a": Fuse(do="fuse", runs=("b", "a"), method="rrf")}
    runs["b"] = Fuse(do="fuse", runs=("a", "b"), method="rrf")
    assert unit_of("b", runs) is None
