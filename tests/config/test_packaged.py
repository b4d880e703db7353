"""The packaged recipes: each loads under its name, and what comes with the package is there."""

import ast
import os
from pathlib import Path

import pytest
from packaged_recipes import ENV, EXPERIMENTS, packaged

import raypipe.config
from raypipe.config.load import (
    load_recipe,
    load_training,
    purpose_of,
    recipe_names,
    recipe_text,
    verb_of,
)
from raypipe.config.paths import missing_inputs
from raypipe.config.phases import resolved_training
from raypipe.config.resolved import resolved_yaml
from raypipe.errors import InputError

DATA = Path(os.environ.get("RAYPIPE_DATA", Path(__file__).parents[2] / "../shared/data"))


def test_a_packaged_recipe_loads_under_its_name_and_comes_back():
    for name in [*recipe_names("pipeline"), *recipe_names("reindex")]:
        recipe = packaged(name)
        assert recipe.name == name
        assert recipe.evaluate and recipe.evaluate.topics and recipe.evaluate.relevance
        resolved = resolved_yaml(recipe)
        assert load_recipe(resolved) == recipe
        assert resolved_yaml(load_recipe(resolved)) == resolved


def test_a_packaged_training_loads_under_its_name_and_comes_back():
    for name in recipe_names("train"):
        recipe = load_training(recipe_text(name), env=ENV, source=name)
        assert recipe.name == name
        resolved = resolved_training(recipe)
        assert load_training(resolved) == recipe
        assert resolved_training(load_training(resolved)) == resolved


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_loads_under_its_name(path: Path):
    load = load_training if verb_of(path.read_text()) == "train" else load_recipe
    assert load(path, env=ENV).name == path.stem


def test_the_kinds_of_presets_are_those_of_the_presets_themselves():
    from raypipe.config.training_rules import KINDS, PROMPTED
    from raypipe.models.folder.settings import PRESETS

    prompted = {name for name, found in PRESETS.items() if getattr(found, "prompt", None)}
    assert prompted == set(PROMPTED)
    trained = PRESETS.keys() - prompted
    assert KINDS == {name: PRESETS[name].kind for name in trained}


def test_the_models_that_need_no_path_are_those_that_come_with_raypipe():
    from raypipe.config.parts import PACKAGED_MODELS
    from raypipe.models.folder.adapters import SHIPPED
    from raypipe.models.folder.model_folder import PACKAGED

    assert PACKAGED_MODELS == (PACKAGED, *SHIPPED)


def test_the_quickstart_needs_nothing_from_outside():
    recipe = load_recipe(recipe_text("quickstart"), env={})
    assert missing_inputs(recipe) == []


def test_queries_without_judgements_are_ranked_all_the_same():
    queries = packaged("msmarco-v2-dl21").queries
    assert [(name, q.judged, q.report) for name, q in queries.items()] == [
        ("dl21", True, True),
        ("dl22", False, True),
    ]


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(InputError, match="'quikstart'; did you mean quickstart?"):
        recipe_text("quikstart")


@pytest.mark.skipif(not DATA.is_dir(), reason="RAYPIPE_DATA names no folder")
@pytest.mark.parametrize("name", ["msmarco-v2-dl21", "nfcorpus", "car-test200"])
def test_the_files_of_the_data_recipes_are_there(name: str):
    recipe = load_recipe(recipe_text(name), env={"RAYPIPE_DATA": str(DATA.resolve())})
    assert missing_inputs(recipe) == []


def test_the_package_imports_only_light_things_and_reads_no_environment():
    imported: set[str] = set()
    package = Path(raypipe.config.__file__).parent.parent
    for path in [*(package / "config").rglob("*.py"), *(package / "kinds").rglob("*.py")]:
        text = path.read_text()
        assert "os.environ" not in text and "getenv" not in text
        tree = ast.parse(text)  # what a kind's functions import waits for the first such stage
        for node in tree.body if path.parent.name == "kinds" else ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    ours = {name for name in imported if name.startswith("raypipe.")}
    beside = {
        f"raypipe.{name}"
        for name in (
            *(
                "errors",
                "markdown",
                "names",
                "package",
                "regular",
                "uris",
                "vocabulary",
            ),
        )
    }
    assert all(
        name in beside or name.startswith(("raypipe.config.", "raypipe.kinds.")) for name in ours
    )
    outside = {name.split(".")[0] for name in imported}
    assert outside & {"yaml", "pydantic"} == {"yaml", "pydantic"}
    assert not outside & {"torch", "ray", "numpy", "pyarrow", "transformers", "faiss", "fsspec"}


def test_what_a_recipe_is_for_is_the_first_sentence_of_its_comment():
    text = "# BM25 as in Robertson et al. 2009, v1.5\n# of it. More words.\n#   a command\nx: 1\n"
    assert purpose_of(text) == "BM25 as in Robertson et al. 2009, v1.5 of it"
    assert purpose_of("format: 1\n# Late.\n") == ""


def test_of_a_long_sentence_only_its_beginning_is_told():
    assert purpose_of(f"# The short: {'x' * 140}.\n") == "The short"
    assert purpose_of(f"# The short: {'x' * 100}.\n").startswith("The short: xx")


def test_every_packaged_recipe_says_what_it_is_for_in_a_line():
    for name in recipe_names():
        assert 10 < len(purpose_of(recipe_text(name))) <= 200


def test_the_list_of_recipes_says_which_command_runs_each_and_what_it_is_for(raypipe_here):
    groups = raypipe_here("recipes").stdout.split("\n\n")
    whom = ["For your own collection", "For figures in minutes", "For researchers"]
    assert all(group.startswith(told) for group, told in zip(groups, whom, strict=True))
    lines = []
    for group in groups:
        _, header, *rows = [line.split("\t") for line in group.splitlines()]
        assert header == ["recipe", "command", "what it is for"]
        lines += rows
    assert sorted(name for name, _, _ in lines) == recipe_names()
    told = {name: (command, purpose) for name, command, purpose in lines}
    assert told["car-bm25"][0] == "raypipe pipeline"
    assert told["car-bm25"][1].startswith("BM25 on TREC CAR 2017 (v2.0, 29.8M paragraphs)")
    assert told["repbert"][0] == "raypipe train"
