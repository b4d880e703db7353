"""What a user has in the folder that --out names is not written over."""

import pytest
from small_training import Recipes, train
from small_workspace import run_small

from raypipe.driver.summaries import write_results, write_summary
from raypipe.driver.workspace import refuse_users_files
from raypipe.errors import InputError


def written(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("name: mine\n")
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name", ["recipe.yaml", "table.md", "measures/dev.tsv", "runs/dev/dense.trec"]
)
def test_a_users_file_in_a_folder_that_is_no_workspace_is_refused_and_stays(
    tmp_path, tiny_model, name
):
    before = written(tmp_path / "work", [name, "notes.txt"])
    with pytest.raises(InputError) as caught:
        run_small(tmp_path, tiny_model)
    assert str(tmp_path / "work" / name) in str(caught.value) and "--out" in str(caught.value)
    assert written(tmp_path / "work", []) == before


@pytest.mark.parametrize("linked", [False, True])
def test_a_run_that_is_read_is_not_written_over_by_the_run_made_from_it(
    tmp_path, tiny_model, linked
):
    """Run again, the command would read its own result: a blend of a blend, a cut of a cut."""
    run_small(tmp_path, tiny_model)
    run = tmp_path / "work" / "runs" / "dev" / "fused.trec"
    before = run.read_bytes()
    place = tmp_path / "link.trec" if linked else run
    if linked:
        place.symlink_to(run)
    with pytest.raises(InputError) as caught:
        run_small(tmp_path, tiny_model, f"stages.given.runs.dev={place}")
    assert caught.value.problems == [
        f"stages.given.runs.dev: {place}: it is read, and would be written over by this "
        "invocation; name another --out, or copy the file first"
    ]
    assert run.read_bytes() == before


def test_files_of_other_names_are_no_reason_to_refuse(tmp_path, tiny_model):
    before = written(tmp_path / "work", ["notes.txt", "runs/dev/mine.trec", "models/mine/a"])
    run_small(tmp_path, tiny_model)
    assert before.items() <= written(tmp_path / "work", []).items()


def test_a_folder_in_the_place_of_a_trained_model_is_refused_before_any_work(
    tmp_path, small_files, tiny_model
):
    recipe, out = Recipes(small_files, tiny_model, tmp_path).write(), tmp_path / "w"
    before = written(out, ["models/small/model.safetensors", "workspace.txt"])
    with pytest.raises(InputError) as caught:
        train(recipe, out)
    assert str(out / "models" / "small") in str(caught.value)
    assert written(out, []) == before


def test_files_of_ones_own_in_a_trained_models_folder_are_refused_and_stay(
    tmp_path, small_files, tiny_model
):
    recipe, out = Recipes(small_files, tiny_model, tmp_path).write(), tmp_path / "w"
    made = ["models/small/model.safetensors", "models/small/raypipe.json"]
    own = ["models/small/notes.txt", "models/small/onnx/model.onnx", "models/other/a"]
    before = written(out, [*made, *own])
    write_summary(out, {"status": "complete"})
    write_results(out, {"status": "complete", "files": dict.fromkeys(made, "sha256")})
    with pytest.raises(InputError) as caught:
        train(recipe, out)
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        str(out / name) for name in own[:2]
    ]
    assert before.items() <= written(out, []).items()
    # After a killed invocation nothing says which files it wrote, so the same command goes on.
    (out / "results.json").unlink()
    refuse_users_files(out, ["table.md"], ["models/small"])
