"""Mutants of recipes are refused in words, or become recipes that can be written and read again."""

import pytest
import yaml
from fuzzing import fuzz, many, read_or_refused
from mutants_of import mutants_of, structures_of
from training_text import RECIPE

from raypipe.config.load import load_recipe, load_training, verb_of
from raypipe.config.resolved import read_resolved, resolved_yaml

PIPELINE = """\
format: 1
name: tiny
collection: {format: beir, input: "${DATA}/corpus"}
queries:
  dev: {file: dev.tsv, qrels: &q dev.txt, report: false}
  test: {file: test.tsv, qrels: *q}
models:
  encoder: {path: minilm}
  duo: {path: minilm-duo}
stages:
  lucene: {do: index}
  embeddings: {do: encode, model: encoder}
  bm25: {do: search, index: lucene, depth: 100}
  dense: {do: search, index: embeddings}
  fused: {do: fuse, runs: [bm25, dense], method: rrf, k: 60.0}
  pairs: {do: score, model: duo, run: fused, k1: 5}
  reranked: {do: aggregate, pairs: pairs, method: sum}
evaluate: {measures: [nDCG@10, "RR(rel=2)@10"], baseline: bm25}
resources: {max_failed_rows: 0}
"""
ENV = {"DATA": "/data", "HOME": "/home/user"}
LOADERS = {"pipeline": (PIPELINE, load_recipe), "training": (RECIPE, load_training)}
kinds = pytest.mark.parametrize("kind", LOADERS)


def check_file(path, data, load):
    """Reads it as the command line does; what is accepted means the same when written out."""
    path.write_bytes(data)
    recipe, refused = read_or_refused(lambda: load(path, env=ENV))
    if refused is not None:
        return False
    assert verb_of(data.decode("utf-8-sig")) == ("train" if load is load_training else "pipeline")
    assert load(resolved_yaml(recipe)) == recipe
    return True


@many
@kinds
def test_a_recipe_of_changed_bytes_is_refused_or_read_again_the_same(kind, num_mutants, tmp_path):
    text, load = LOADERS[kind]
    path = tmp_path / "a.yaml"
    fuzz(mutants_of(text.encode()), lambda data: check_file(path, data, load), num_mutants)


@many
def test_a_training_of_another_structure_is_refused_or_read_again_the_same(num_mutants, tmp_path):
    def check(body):
        text = yaml.safe_dump(body, sort_keys=False)
        return check_file(tmp_path / "a.yaml", text.encode(), load_training)

    fuzz(structures_of(yaml.safe_load(RECIPE)), check, num_mutants)


@many
def test_a_pipeline_given_as_data_is_refused_or_read_again_the_same(num_mutants):
    def check(body):
        if not isinstance(body, dict):
            return False
        recipe, refused = read_or_refused(lambda: load_recipe(body))
        assert refused is not None or load_recipe(resolved_yaml(recipe)) == recipe
        return refused is None

    deep = []
    for _ in range(2_000):
        deep = [deep]
    known = [{"stages": deep}, {"format": float("nan")}]
    fuzz(structures_of(yaml.safe_load(PIPELINE)), check, num_mutants, known=known)


@many
def test_a_changed_resolved_recipe_is_refused_or_a_mapping(num_mutants, tmp_path):
    path = tmp_path / "recipe.yaml"
    whole = resolved_yaml(load_recipe(PIPELINE, base=tmp_path, env=ENV)).encode()

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read_resolved(path))
        if refused is None:
            assert isinstance(found, dict) and isinstance(found.get("stores"), str | None)
        return refused is None

    fuzz(mutants_of(whole), check, num_mutants)


@many
def test_changed_overrides_are_refused_or_recorded(num_mutants, tmp_path):
    written = [b"resources.max_failed_rows=5", b"collection.input=[a, b]", b"stages.bm25.depth=7"]

    def check(data):
        text = data.decode("utf-8", "surrogateescape")
        read = lambda: load_recipe(PIPELINE, overrides=[text], env=ENV)  # noqa: E731
        recipe, refused = read_or_refused(read)
        assert refused is not None or recipe.overrides == (text,)
        return refused is None

    known = [b"9" * 20_000 + b".a=1", b"stages.bm25.depth=" + b"9" * 20_000]
    fuzz(mutants_of(*written), check, num_mutants, known=known)
