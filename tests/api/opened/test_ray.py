"""A Ray that serves several calls: with the marks of a real Ray, and what is refused without."""

import json
import subprocess
import sys

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file, save_file

import raypipe
from raypipe.errors import InputError, LimitError

CALLS = """
import json, sys
import raypipe
recipe, texts, out = json.load(open(sys.argv[1]))
with raypipe.open_ray(folder=out) as ray:
    for depth in (20, 10):
        overrides = {"stages.dense.depth": depth}
        invocation = raypipe.run(recipe, out + "/work", overrides=overrides, until="mono", ray=ray)
    runs = invocation.runs["test"]
    model = recipe["models"]["mono"]["path"]
    found = raypipe.rerank(runs["dense"], *texts, model, k=12, ray=ray)
    print(len(found), found.equals(runs["mono"]), repr(ray))
"""


def actors():
    """The processes of the actors of a Ray that this process started."""
    below = psutil.Process().children(recursive=True)
    return {each.pid for each in below if "ray::Actor" in " ".join(each.cmdline() or [each.name()])}


@pytest.fixture
def broken(tiny, tmp_path):
    """A monoBERT model whose scores are not numbers."""
    folder = tiny.make_tiny_reranker(tmp_path / "broken", seed=3)
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][:] = np.nan
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.ray
@pytest.mark.slow
def test_one_ray_and_its_processes_serve_every_call_with_the_results_of_none(
    recipe, made, passages, queries, tiny_mono, tiny_duo, broken, tmp_path
):
    inline, texts = made.runs["test"], (queries, passages)
    with raypipe.open_ray() as ray:
        assert actors() == set()
        found = raypipe.run(recipe, tmp_path / "work", until="mono", ray=ray)
        assert all(inline[name].equals(run) for name, run in found.runs["test"].items())
        first = actors()
        mono = raypipe.rerank(inline["dense"], *texts, tiny_mono, k=12, ray=ray)
        assert mono.equals(inline["mono"])
        assert first and actors() <= first, "a call started a process"
        with pytest.raises(LimitError, match="rows"):
            raypipe.rerank(inline["dense"], *texts, broken, ray=ray)
        first |= actors()  # it may have ended what failed
        duo = raypipe.score(inline["mono"], *texts, tiny_duo, k=5, ray=ray)
        assert duo.equals(raypipe.score(inline["mono"], *texts, tiny_duo, k=5))
        lone = {"q1": {next(iter(passages)): 1.0}}
        assert raypipe.score(lone, *texts, tiny_duo, ray=ray).num_rows == 0
        assert raypipe.score({}, *texts, tiny_mono, ray=ray).num_rows == 0
        with raypipe.open_ray() as second, pytest.raises(InputError, match="has one already"):
            raypipe.score(inline["mono"], *texts, tiny_mono, ray=second)
        assert raypipe.score(lone, *texts, tiny_mono, ray=ray).num_rows == 1
        assert actors() and actors() <= first, "a call started a process"
    assert actors() == set()


def test_scores_of_a_model_with_a_blend_are_those_without_a_ray(
    passages, queries, made, tiny, tmp_path, monkeypatch
):
    def inline(recipe, out, *, ray):
        return raypipe.run({**recipe, "resources": {"backend": "inline", "device": "cpu"}}, out)

    monkeypatch.setattr("raypipe.api.scoring_on_ray.run", inline)
    model = tiny.make_tiny_reranker(tmp_path / "blended", blend=2.0)
    given = (made.runs["test"]["dense"], queries, passages, model)
    with raypipe.open_ray() as ray:
        assert raypipe.score(*given, k=5, ray=ray).equals(raypipe.score(*given, k=5))
        assert raypipe.rerank(*given, k=5, ray=ray).equals(raypipe.rerank(*given, k=5))


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_a_ray_that_ended_between_two_calls_is_started_again(passages, queries, tiny_mono):
    run = {"q1": {name: 1.0 for name in list(passages)[:5]}}
    with raypipe.open_ray() as ray:
        wanted = raypipe.score(run, queries, passages, tiny_mono, ray=ray)
        (raylet,) = (p for p in psutil.Process().children() if p.name() == "raylet")
        raylet.kill()
        raylet.wait()
        assert raypipe.score(run, queries, passages, tiny_mono, ray=ray).equals(wanted)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_a_cluster_is_joined_once_for_every_call(recipe, passages, queries, tmp_path):
    from cluster_of_nodes import Nodes

    (tmp_path / "given.json").write_text(json.dumps([recipe, [queries, passages], str(tmp_path)]))
    nodes = Nodes(1, {})
    try:
        done = subprocess.run(
            [sys.executable, "-c", CALLS, str(tmp_path / "given.json")],
            env=nodes.environment,
            capture_output=True,
            text=True,
        )
    finally:
        nodes.close()
    address = nodes.environment["RAY_ADDRESS"]
    assert done.stdout == f"30 True <Ray at {address}>\n", done.stderr


def test_a_call_that_needs_no_ray_or_a_closed_one_is_refused(recipe, tiny_mono):
    run, texts = {"q": {"a": 1.0}}, ({"q": "rank"}, {"a": "run"})
    with raypipe.open_ray() as ray:
        assert repr(ray) == "<Ray at this machine>"
        with pytest.raises(InputError, match="ray: for a run; tuples of texts are scored in this"):
            raypipe.score([("a", "b")], model=tiny_mono, ray=ray)
        with pytest.raises(InputError, match="ray: scores are given, so nothing is scored"):
            raypipe.rerank(run, scores={"q": {"a": 1.0}}, ray=ray)
    for other in ("auto", True, raypipe):
        told = f"ray: expected what open_ray opened; found {type(other).__name__}"
        with pytest.raises(InputError, match=told):
            raypipe.rerank(run, *texts, tiny_mono, ray=other)
        with pytest.raises(InputError, match=told):
            raypipe.run(recipe, ray=other)
    ray.close()
    assert repr(ray) == "<Ray, closed>"
    with pytest.raises(InputError, match="ray: closed; open another with open_ray"):
        raypipe.rerank(run, *texts, tiny_mono, ray=ray)
    with pytest.raises(InputError, match="ray: closed"):
        raypipe.run(recipe, ray=ray)


def test_the_address_is_given_or_in_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "there:1")
    assert raypipe.open_ray().shared.address == "there:1"
    assert raypipe.open_ray("here:2").shared.address == "here:2"
    assert raypipe.open_ray("").shared.address is None
    monkeypatch.delenv("RAY_ADDRESS")
    assert raypipe.open_ray().shared.address is None
    with pytest.raises(InputError, match="address: expected that of a cluster, host:port; found 3"):
        raypipe.open_ray(3)


def test_a_cluster_scores_in_a_folder_that_it_shares(tiny_mono, tmp_path):
    assert raypipe.open_ray("h:1", folder=tmp_path).folder == tmp_path
    assert raypipe.open_ray("").folder is None
    with pytest.raises(InputError, match="folder: expected an existing folder; found '.*none'"):
        raypipe.open_ray(folder=tmp_path / "none")
    with pytest.raises(InputError, match=r"nodes of h:1 .*: open_ray\(folder=...\)"):
        raypipe.rerank(
            {"q": {"a": 1.0}}, {"q": "rank"}, {"a": "run"}, tiny_mono, ray=raypipe.open_ray("h:1")
        )
