"""The published tables: complete, in range, and equal to what the papers print."""

from functools import cache
from pathlib import Path

import pytest
from packaged_recipes import ENV

from raypipe.config.load import named_recipe, named_training, recipe_text, verb_of
from raypipe.config.paths import recipe_inputs
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training
from raypipe.errors import InputError
from raypipe.evaluation.names import parse_measures
from raypipe.report.published import (
    TIME,
    InputList,
    cells,
    inputs,
    names,
    plan,
    read_packaged,
    reproduction,
    sources,
    unset_variables,
    variables,
)

PAPERS = {
    "monobert-2019": 16,
    "multistage-2019": 28,
    "repbert-2020": 103,
    "cip-2021": 18,
    "mteb": 5,
}
"""Source -> the number of its values."""


def value(source, table, row, column):
    return next(
        cell.value for cell in cells(source, table) if (cell.row, cell.column) == (row, column)
    )


@pytest.mark.parametrize("name", sources())
def test_every_value_is_a_share_of_a_known_measure_with_a_source(name):
    source = sources()[name]
    assert source.source and source.title and source.url.startswith("https://")
    of_source = [cell for table in source.tables for cell in cells(name, table.name)]
    assert len(of_source) == PAPERS.get(name, 18)
    for cell in of_source:
        assert cell.source == source.source and cell.table and cell.row
        assert cell.about.collection and cell.about.queries
        if cell.about.measure == TIME:
            assert 10 <= cell.value <= 5000
        else:
            parse_measures([cell.about.measure])
            assert 0.1 <= cell.value <= 0.99 if cell.value is not None else cell.source == "MTEB"


@pytest.mark.parametrize("name", sources())
def test_every_row_names_columns_of_its_table_and_every_column_has_a_value(name):
    for table in sources()[name].tables:
        named = {column for row in table.rows.values() for column in row}
        assert named == set(table.columns)
        assert all(
            set(inferred) <= set(table.rows[row]) for row, inferred in table.inferred.items()
        )


def test_a_value_is_the_one_that_the_source_prints():
    for source, table, row, column, expected in [
        ("monobert-2019", "Table 1", "BM25 (Lucene, no tuning)", "test", 0.123),
        ("monobert-2019", "Table 1", "BERT Large", "dev", 0.365),
        ("monobert-2019", "Table 1", "BERT Large", "test", 0.335),
        ("monobert-2019", "Table 1", "Conv-KNRM", "dev", 0.290),
        ("monobert-2019", "Table 1", "IRNet", "eval", 0.281),
        ("multistage-2019", "Table 1", "Anserini (BM25)", "dev", 0.187),
        ("multistage-2019", "Table 1", "+ monoBERT + duoBERT BINARY", "dev", 0.383),
        ("multistage-2019", "Table 1", "+ monoBERT + duoBERT SUM + TCP", "eval", 0.379),
        ("multistage-2019", "Table 2", "+ monoBERT", "test", 0.348),
        ("multistage-2019", "text, recall of the first stage", "Anserini (BM25)", "dev", 0.857),
        ("repbert-2020", "Table 1", "RepBERT", "recall", 0.943),
        ("repbert-2020", "Table 1", "BM25 + BERT Large", "ms/query", 3400),
        ("repbert-2020", "Table 2", "first 5", "docTTTTTquery", 0.314),
        ("repbert-2020", "Table 2", "first 1000", "RepBERT", 0.376),
        ("repbert-2020", "Table 3", "RepBERT", "docTTTTTquery", 0.315),
        ("repbert-2020", "Table 3", "BM25", "RepBERT", 0.245),
        ("repbert-2020", "Table 4", "docTTTTTquery", "doc2query", 0.942),
        ("cip-2021", "Tables 1 and 2", "CIP_run2", "nDCG@10", 0.6783),
        ("cip-2021", "Tables 1 and 2", "CIP_run3", "MRR", 0.9567),
        ("cip-2021", "Tables 1 and 2", "CIP_run1", "val 2", 0.3675),
        ("anserini", "regressions-beir-v1.0.0-nfcorpus.flat.md", "BM25", "nDCG@10", 0.3218),
        ("anserini", "regressions-dl21-passage.md", "+RM3", "MAP@100", 0.1666),
        ("mteb", "NFCorpus.json", "all-MiniLM-L6-v2", "ndcg_at_10", 0.31594),
        ("mteb", "NFCorpus.json", "all-MiniLM-L6-v2", "mrr_at_10", 0.50456),
    ]:
        assert value(source, table, row, column) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "folders: {A: a}\nfolders: {B: b}\ninputs: {}\n",
            r"a\.yaml: 1: folders: given again at .*a\.yaml: 2;",
        ),
        ("folders: {A: a}\ninputs: {}\nmore: 1\n", r"a\.yaml: \('more',\): Extra inputs"),
        ("folders: {A: a}\n", r"a\.yaml: \('inputs',\): Field required"),
    ],
)
def test_a_file_of_published_values_is_refused_by_its_line_or_its_key(tmp_path, text, told):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_packaged(str(path), InputList)


def test_columns_of_a_leaderboards_hidden_judgements_are_marked_and_no_others():
    found = {
        (name, table.name, column)
        for name, source in sources().items()
        for table in source.tables
        for column, about in table.columns.items()
        if about.board_only
    }
    assert found == {
        ("monobert-2019", "Table 1", "eval"),
        ("multistage-2019", "Table 1", "eval"),
        ("repbert-2020", "Table 1", "test"),
    }


def test_what_is_inferred_equals_the_pair_in_the_other_order():
    table = sources()["repbert-2020"].table("Table 4")
    assert table.inferred == {"DeepCT": ["BM25", "doc2query"]}
    for first, second in (("DeepCT", "BM25"), ("DeepCT", "doc2query")):
        assert table.rows[first][second] == table.rows[second][first]
        (cell,) = [
            cell
            for cell in cells("repbert-2020", "Table 4")
            if (cell.row, cell.column) == (first, second)
        ]
        assert cell.is_inferred


def test_one_collection_of_a_table_is_its_columns_alone():
    rows = {cell.row for cell in cells("monobert-2019", "Table 1", "trec-car-2017")}
    assert "Co-PACRR" in rows and "KNRM" not in rows
    assert {c.column for c in cells("monobert-2019", "Table 1", "trec-car-2017")} == {"test"}


NAMES = ["bm25", "car", "cip", "duobert", "minilm", "monobert", "multistage", "repbert"]
TOLERANCES = {"the authors' weights": 0.001, "retrained": 0.01, "their run, measured here": 0.001}


@cache
def recipes_of(name):
    """Each step's recipe, and the paths that it reads."""
    env = ENV | {name: f"${{{name}}}" for name in inputs().folders} | {"OUT": "/out"}
    found = {}
    for step in reproduction(name).steps:
        trains = verb_of(recipe_text(step.recipe)) == "train"
        own = {key: value.replace("${OUT}", "/out") for key, value in step.environment.items()}
        load = named_training if trains else named_recipe
        recipe = load(step.recipe, overrides=step.settings, env=env | own)
        found[step.called] = recipe, [path for _, path, _ in recipe_inputs(recipe)]
    return found


def test_there_is_one_for_every_name():
    assert names() == NAMES
    assert all(reproduction(name).name == name for name in NAMES)


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(InputError, match="no 'monobart'; did you mean monobert. expected one of"):
        reproduction("monobart")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_compared_is_measured_by_the_recipe_and_shown(name):
    of = reproduction(name)
    steps = {step.called: step for step in of.steps}
    assert len(steps) == len(of.steps)
    shown = {(each.source, each.table): each for each in of.tables}
    seen = set()
    for each in of.compared:
        recipe, _ = recipes_of(name)[each.step]
        table = shown[each.source, each.table]
        published = {(c.row, c.column): c for c in cells(each.source, each.table, table.collection)}
        for row, systems in each.systems.items():
            for column, system in systems.items():
                cell = published[row, column]
                assert not cell.about.board_only
                assert (each.source, each.table, row, column) not in seen
                seen.add((each.source, each.table, row, column))
                measure = each.measures.get(column, cell.about.measure)
                if isinstance(recipe, Recipe):
                    assert recipe.queries[each.queries].judged
                    assert recipe.stages[system].produces == "run"
                    assert measure in (*recipe.evaluate.measures, TIME)
                else:
                    phase, dev = system.split("/")
                    (training,) = [p.training for p in recipe.phases if p.name == phase]
                    assert dev in training.dev and training.validate_.measure == measure


@pytest.mark.parametrize("name", NAMES)
def test_a_tolerance_is_that_of_how_the_value_comes_about_and_has_a_reason(name):
    for each in reproduction(name).compared:
        assert each.why
        if each.how == "our own baseline":
            assert each.within in (0.001, 0.002, 0.003)
        elif each.within != TOLERANCES[each.how]:
            assert (each.source, each.within) == ("mteb", 0.004) and "equal scores" in each.why


@pytest.mark.parametrize("name", NAMES)
def test_every_input_is_described_or_made_by_an_earlier_step(name):
    made = []
    for step in reproduction(name).steps:
        _, found = recipes_of(name)[step.called]
        for path in found:
            if not path.startswith(tuple(made)):
                assert path[path.index("${") :] in inputs().inputs, path
        made.append(f"/out/{step.folder}/")


def test_no_description_is_of_a_file_that_nothing_reads():
    read = {path for name in NAMES for _, found in recipes_of(name).values() for path in found}
    assert {path[path.index("${") :] for path in read if "${" in path} == set(inputs().inputs)


def test_every_paper_table_is_shown_under_some_name():
    shown = {(t.source, t.table) for name in NAMES for t in reproduction(name).tables}
    assert shown == {(name, t.name) for name, source in sources().items() for t in source.tables}


def test_every_column_of_every_paper_is_shown_whole_under_some_name():
    whole = {
        (cell.source, cell.table, cell.row, cell.column)
        for name in NAMES
        for t in reproduction(name).tables
        if t.others
        for cell in cells(t.source, t.table, t.collection)
    }
    every = {
        (cell.source, cell.table, cell.row, cell.column)
        for name, source in sources().items()
        for table in source.tables
        for cell in cells(name, table.name)
    }
    assert every == whole


OUT = Path("/out")


def test_steps_have_their_folders_common_stores_and_the_models_of_earlier_steps():
    mono, duo, last = plan(reproduction("duobert"), OUT, data=Path("/data"))
    assert [each.folder for each in (mono, duo, last)] == [
        OUT / "monobert-2019b", OUT / "duobert-2019", OUT / "duobert-multistage"
    ]  # fmt: skip
    assert isinstance(mono.recipe, Training) and isinstance(last.recipe, Recipe)
    assert mono.recipe.model.start == "/data/models/bert-large-uncased"
    assert last.recipe.stores == "/out/stores" and mono.recipe.stores is None
    models = {name: model.path for name, model in last.recipe.models.items()}
    assert models == {
        "mono-model": "/out/monobert-2019b/models/monobert-2019b",
        "duo-model": "/out/duobert-2019/models/duobert-2019",
    }


def test_two_trainings_may_share_a_workspace_and_read_what_a_pipeline_left():
    steps = {each.step.called: each for each in plan(reproduction("car"), OUT, data=Path("/d"))}
    assert steps["car-mono"].folder == steps["car-duo"].folder == OUT / "car-trained"
    assert steps["car-mono"].recipe.train["car"].queries == "/out/car/topics/train/queries.tsv"
    duo = steps["car-multistage"].recipe.models["duo-model"]
    assert duo.path == "/out/car-trained/models/car-duo"


def test_a_setting_is_of_every_step_or_of_the_one_that_it_names():
    settings = ["resources.max_failures=7", "duobert-2019:steps=30000", "duobert-2019:seed=9"]
    mono, duo = plan(
        reproduction("duobert"), OUT, data=Path("/data"), settings=settings,
        only=["monobert-2019b", "duobert-2019"],
    )  # fmt: skip
    assert (mono.recipe.steps, duo.recipe.steps) == (100_000, 30_000)
    assert mono.recipe.resources.max_failures == duo.recipe.resources.max_failures == 7
    assert duo.recipe.seed == 9 != mono.recipe.seed
    settings = ["stages.mono.k0=5", "models.mono-model.path=/models/mono:2019"]
    (only,) = plan(reproduction("monobert"), OUT, data=Path("/data"), settings=settings)
    assert only.recipe.stages["mono"].k0 == 5  # the colon of a value names no step
    assert only.recipe.models["mono-model"].path == "/models/mono:2019"


def test_problems_of_every_step_are_told_together_with_its_name():
    with pytest.raises(InputError) as found:
        plan(reproduction("duobert"), OUT, data=Path("/data"), settings=["seed=x"])
    assert {problem.split(":")[0] for problem in found.value.problems} == {
        "monobert-2019b", "duobert-2019", "duobert-multistage"
    }  # fmt: skip
    with pytest.raises(InputError, match="duobert has no step 'duobert-2018'; did you mean duo"):
        plan(reproduction("duobert"), OUT, only=["duobert-2018"])
    with pytest.raises(InputError, match="no step 'duobert'; did you mean"):
        plan(reproduction("duobert"), OUT, settings=["duobert:steps=1"])


def test_a_variable_that_is_set_counts_more_than_the_folder_of_data():
    env = {"MSMARCO": "/elsewhere"}
    found = variables(env, Path("/data"))
    assert found["MSMARCO"] == "/elsewhere" and found["MSMARCO_V2"] == "/data/msmarco-v2"
    assert found["RAYPIPE_DATA"] == "/data/collections"
    assert unset_variables(env, Path("/data")) == []
    assert variables(env, None)["TRECCAR"] == "/${TRECCAR}"
    assert unset_variables(env, None) == ["MSMARCO_V2", "MODELS", "RUNS", "TRECCAR", "RAYPIPE_DATA"]
