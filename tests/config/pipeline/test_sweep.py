import pytest
import yaml

from raypipe.config import named_sweep, sweep_points
from raypipe.errors import InputError

RECIPE = """
format: 1
name: small
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv}}
models: {mono: {path: minilm-mono}}
stages:
  lucene: {do: index}
  bm25: {do: search, index: lucene}
  given: {do: read, runs: {test: a.trec}}
  fused: {do: fuse, runs: [given, bm25], method: weighted}
  mono: {do: score, run: fused, model: mono, k0: 5}
evaluate: {measures: [RR@10]}
"""


def points(*overrides, **more):
    return sweep_points(RECIPE, overrides=overrides, **more)


def values(*overrides):
    return [tuple(point.values.values()) for point in points(*overrides)]


def problems(*overrides, **more):
    with pytest.raises(InputError) as refused:
        points(*overrides, **more)
    return refused.value.problems


def test_several_lists_make_the_grid_the_last_key_fastest():
    found = points("stages.mono.k0=[2,4]", "evaluate.measures=[AP]", "stages.bm25.depth=[9, 8, 7]")
    told = [(p.values["stages.mono.k0"], p.values["stages.bm25.depth"]) for p in found]
    assert told == [(2, 9), (2, 8), (2, 7), (4, 9), (4, 8), (4, 7)]
    recipe = found[4].recipe
    assert (recipe.stages["mono"].k0, recipe.stages["bm25"].depth) == (4, 8)
    assert recipe.evaluate.measures == ("AP",)
    expected = ("stages.mono.k0=4", "evaluate.measures=[AP]", "stages.bm25.depth=8")
    assert recipe.overrides == expected


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("stages.mono.k0=5",),
        ("evaluate.measures=[AP, RR@10]",),
        ("stages.fused.runs=[bm25, given]",),
        ("collection.input=[a.tsv, b.tsv]",),
        ("stages.bm25.bm25={tune: {queries: test, measure: AP, k1: [0.6, 0.9], b: [0.4]}}",),
        ("stages.bm25.bm25.tune.k1=[0.6, 0.9]",),
        ("stages.fused.weights=[1]",),
        ("stages.mono.k0=[]",),
        ("stages.mono.kO=[1, 2]",),
        ("stages.mono.do=[shuffle, cut]",),
        ("stages.mno.k0=[1, 2]",),
        ("stages.mono.k0=[1",),
        ("stages.mono.k0",),
    ],
    ids=str,
)
def test_a_list_that_the_recipe_takes_or_that_no_value_of_makes_right_is_no_sweep(overrides):
    assert points(*overrides) == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("stages.fused.weights=[[1, 2], [3, 4]]", [([1, 2],), ([3, 4],)]),
        (
            "stages.fused.runs=[[bm25, given], [given, bm25]]",
            [(["bm25", "given"],), (["given", "bm25"],)],
        ),
        (
            "stages.bm25.bm25=[{k1: 1.0e-5, b: 0.4}, {k1: 2, b: 0}]",
            [({"k1": 1e-5, "b": 0.4},), ({"k1": 2, "b": 0},)],
        ),
        ("stages.fused.method=[rrf, alternate]", [("rrf",), ("alternate",)]),
        ("models.mono.path=['${A}', b]", [("${A}",), ("b",)]),
        ("resources.shard_rows=[7]", [(7,)]),
        ("resources.precision=['${P}']", [("${P}",)]),
    ],
)  # fmt: skip
def test_values_of_any_type_are_swept(override, expected):
    found = points(override, env={"A": "/folder", "P": "bf16"})
    assert [tuple(point.values.values()) for point in found] == expected
    if "bm25.bm25" in override:
        assert found[0].recipe.stages["bm25"].bm25.k1 == 1e-5
    if "models" in override:
        assert found[0].recipe.models["mono"].path == "/folder"


def test_every_problem_of_every_point_is_told_once():
    told = problems("stages.mono.k0=[2, x, 0]", "stages.bm25.depth=[1, -1]", "evaluate.topics=3")
    depth = "override stages.bm25.depth=-1: stages.bm25.depth: expected a number from 1; found -1"
    k0 = "override stages.mono.k0=x: stages.mono.k0: expected a whole number; found text 'x'"
    zero = "override stages.mono.k0=0: stages.mono.k0: expected a number from 1; found 0"
    topics = "override evaluate.topics=3: evaluate.topics: expected text; found 3"
    assert told[1:] == [depth, k0, zero] and told[0].startswith(topics)


def test_lists_that_make_no_sense_are_refused():
    assert problems("stages.mono.k0=[2, 4, 2]") == [
        "override stages.mono.k0: 2 is given twice; keep one of them"
    ]
    for other in ("stages.mono.k0=5", "stages.mono.k0=[7]", "stages.mono={do: score}"):
        told = problems("stages.mono.k0=[2, 4]", other)
        key = other.partition("=")[0]
        assert told[0] == f"override stages.mono.k0: {key} is given too; keep one of them"
    assert problems("stores=[a, b]") == [
        "override stores: all points of a sweep have one; give one value"
    ]
    assert values("stages.mono.k0=3", "stages.mono.k0=[2, 4]") == [(2,), (4,)]
    assert values("stages.mono.k0=[2, 4]", "stages.bm25.depth=3") == [(2,), (4,)]


def test_so_many_points_at_most():
    forty, three = (list(range(1, n + 1)) for n in (40, 3))
    told = problems(f"stages.mono.k0={forty}", f"stages.bm25.depth={three}")
    assert told == [
        "a sweep of 40 x 3 = 120 points: expected at most 100; give fewer values, or sweep the "
        "keys one after the other"
    ]
    assert len(points(f"stages.mono.k0={list(range(1, 101))}")) == 100


def test_a_recipe_is_swept_by_its_name_or_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(RECIPE)
    (first, _) = named_sweep(str(path), overrides=["stages.mono.k0= [2, 4]"])
    assert first.recipe.collection.input == (str(tmp_path / "passages.tsv"),)
    assert named_sweep(str(path), overrides=["evaluate.measures=[AP]"]) == []
    assert named_sweep("no-such", overrides=["stages.mono.k0=2"]) == []
    with pytest.raises(InputError, match="no-such"):
        named_sweep("no-such", overrides=["stages.mono.k0=[2]"])


def test_a_training_recipe_is_named_as_such_also_with_lists():
    with pytest.raises(InputError, match="raypipe train car-mono") as refused:
        named_sweep("car-mono", overrides=["name=[a, b]"])
    assert len(refused.value.problems) == 1


def test_data_is_swept_as_text_is():
    found = sweep_points(yaml.safe_load(RECIPE), overrides=["stages.mono.k0=[2, 4]"])
    assert [point.recipe.stages["mono"].k0 for point in found] == [2, 4]
