import pytest
from held_recipe import HELD

from raypipe.driver.training.opened_sets import teacher_of
from raypipe.errors import InputError


def test_a_teacher_is_a_run_file_or_the_one_mono_run_of_a_workspace(held, tmp_path):
    assert teacher_of(str(tmp_path / "t.trec")) == (str(tmp_path / "t.trec"), None)
    mono = {"do": "score", "run": "bm25", "model": "minilm", "k0": 7}
    folder = held(stages={**HELD["stages"], "mono": mono})
    with pytest.raises(InputError, match="found none"):
        teacher_of(str(folder))
    run = folder / "runs" / "dev" / "mono.trec"
    run.parent.mkdir(parents=True)
    run.write_text("x")
    (run.parent / "pairs.trec").write_text("x")
    (run.parent / "bm25.trec").write_text("x")
    assert teacher_of(str(folder)) == (str(run), 7)
    second = folder / "runs" / "test" / "mono.trec"
    second.parent.mkdir()
    second.write_text("x")
    with pytest.raises(InputError, match="found runs/dev/mono.trec, runs/test/mono.trec"):
        teacher_of(str(folder))
    with pytest.raises(InputError, match="found none"):
        teacher_of(str(tmp_path))
