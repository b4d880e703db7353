import pytest

from raypipe.config.load import load_recipe
from raypipe.config.yaml import apply_overrides, parse_yaml
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.search import Bm25Search


def applied(text: str, *overrides: str) -> tuple[object, list[str]]:
    document = parse_yaml(text, origin=lambda line: f"line {line}")
    problems = apply_overrides(document, overrides)
    return document.data, problems


def test_values_are_yaml_and_later_ones_win():
    data, problems = applied("a: {b: 1}\nc: [x, y]\n", "a.b=2", "a.b=[3, 'z']", "c.1=true", "d=")
    assert data == {"a": {"b": [3, "z"]}, "c": ["x", True], "d": None}
    assert not problems


def test_mappings_on_the_way_are_made():
    data, problems = applied("a: 1\nempty:\n", "resources.gpus=2", "empty.x.y=1")
    assert data == {"a": 1, "resources": {"gpus": 2}, "empty": {"x": {"y": 1}}}
    assert not problems


def test_a_value_may_hold_an_equals_sign():
    data, _ = applied("m: [AP]\n", "m=['RR(rel=2)@10']")
    assert data == {"m": ["RR(rel=2)@10"]}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stages.bm52.depth=3", "stages.bm52: no such name; did you mean bm25? stages has bm25"),
        ("stages.new={do: index}", "stages.new: no such name; stages has bm25, other"),
        ("stages.bm25.do.x=1", "stages.bm25.do is text 'search', which has no keys"),
        ("list.2=x", "list.2: expected an index below 2, found '2'"),
        ("list.-1=x", "expected an index below 2, found '-1'"),
        ("no-value", "expected KEY=VALUE, such as stages.bm25.depth=10"),
        ("=1", "expected KEY=VALUE"),
        ("a..b=1", "expected KEY=VALUE"),
        ("a=[1", "not YAML"),
    ],
)
def test_what_cannot_be_set_is_told_with_its_override(override: str, message: str):
    text = "stages: {bm25: {do: search}, other: {}}\nlist: [1, 2]\n"
    data, problems = applied(text, override)
    assert data == {"stages": {"bm25": {"do": "search"}, "other": {}}, "list": [1, 2]}
    assert len(problems) == 1
    assert problems[0].startswith(f"override {override}: ")
    assert message in problems[0]


def test_overrides_reach_the_recipe_and_are_recorded(text: str):
    overrides = ["stages.bm25.depth=10", "stages.fused.runs=[dense, bm25]", "resources.gpus=2"]
    recipe = load_recipe(text, overrides=overrides)
    search, fuse = recipe.stages["bm25"], recipe.stages["fused"]
    assert isinstance(search, Bm25Search) and search.depth == 10
    assert isinstance(fuse, Fuse) and fuse.runs == ("dense", "bm25")
    assert recipe.resources.gpus == 2
    assert recipe.overrides == tuple(overrides)


def test_an_override_of_an_alias_changes_one_place_only():
    data, _ = applied("a: &x {n: 1}\nb: *x\n", "b.n=2")
    assert data == {"a": {"n": 1}, "b": {"n": 2}}
