"""Models that sentence-transformers computes, in one pipeline: encode, search, rerank."""

import json
import shutil

import numpy as np
import pytest
import sentence_transformers as library
import yaml
from library_layouts import encoder, late, normal, splade

from raypipe.cli.main import run

PASSAGES = {"p0": "the zebra, a rank", "p1": "a lease", "p2": "of shards", "p3": "a b c d"}
QUERIES = {"q1": "a zebra", "q2": "the lease of a driver"}


@pytest.fixture
def folder(tmp_path):
    for name, texts in (("passages", PASSAGES), ("queries", QUERIES)):
        lines = [f"{key}\t{text}\n" for key, text in texts.items()]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    encoder(tmp_path / "dense", "mpnet", normal, prompts={"query": "run: ", "document": ""})
    splade(tmp_path / "sparse", "electra")
    late(tmp_path / "late")
    models = {
        name: {"path": str(tmp_path / name / "model")} for name in ("dense", "sparse", "late")
    }
    body = {
        "format": 1,
        "name": "library",
        "collection": {"format": "msmarco-v1", "input": str(tmp_path / "passages.tsv")},
        "queries": {"dev": {"file": str(tmp_path / "queries.tsv")}},
        "models": models,
        "stages": {
            "vectors": {"do": "encode", "model": "dense"},
            "weights": {"do": "encode", "model": "sparse"},
            "dense-run": {"do": "search", "index": "vectors"},
            "sparse-run": {"do": "search", "index": "weights"},
            "late-run": {"do": "score", "run": "dense-run", "model": "late", "k0": 4},
        },
        "resources": {"backend": "inline", "device": "cpu"},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    return tmp_path


def scores_of(folder, system):
    lines = (folder / "work" / "runs" / "dev" / f"{system}.trec").read_text().splitlines()
    return {(line.split()[0], line.split()[2]): float(line.split()[4]) for line in lines}


def table(queries, passages, pairwise):
    """Scores by query and passage of two lists of vectors."""
    return {
        (q, p): float(pairwise(query, passage))
        for q, query in zip(QUERIES, queries, strict=True)
        for p, passage in zip(PASSAGES, passages, strict=True)
    }


def test_a_pipeline_has_the_librarys_own_scores_and_a_rerun_computes_nothing(folder, capsys):
    recipe, out = str(folder / "recipe.yaml"), str(folder / "work")
    assert run(["plan", recipe])[0] == 0
    assert run(["pipeline", recipe, "--out", out])[0] == 0
    texts = [*QUERIES.values()], [*PASSAGES.values()]
    model = library.SentenceTransformer(str(folder / "dense" / "model"), device="cpu")
    own = model.encode_query(texts[0]), model.encode_document(texts[1])
    expected = table(*own, lambda q, p: q @ p)
    assert scores_of(folder, "dense-run") == pytest.approx(expected, abs=2e-3)  # stored as fp16
    model = library.SparseEncoder(str(folder / "sparse" / "model"), device="cpu")
    own = [
        np.round(100 * encode(part, convert_to_sparse_tensor=False).numpy())
        for encode, part in zip((model.encode_query, model.encode_document), texts, strict=True)
    ]
    expected = {pair: s for pair, s in table(*own, lambda q, p: q @ p).items() if s > 0}
    assert scores_of(folder, "sparse-run") == pytest.approx(expected)
    exported = ["export", out + "/stores/weights", "--to", "pyserini", "--out", out + "-e"]
    assert run([*exported, "--model", str(folder / "sparse" / "model")])[0] == 0
    (file,) = (folder / "work-e").rglob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == [*PASSAGES]
    words = model.tokenizer.convert_ids_to_tokens([*range(own[1].shape[1])])
    for line, weights in zip(lines, own[1], strict=True):
        assert line["vector"] == {w: int(x) for w, x in zip(words, weights, strict=True) if x > 0}
    assert run([*exported[:-1], out + "-f", "--model", str(folder / "dense" / "model")])[0] == 2
    model = library.MultiVectorEncoder(str(folder / "late" / "model"), device="cpu")
    own = model.encode_query(texts[0]), model.encode_document(texts[1])
    expected = table(*own, lambda q, p: model.similarity_pairwise([q], [p])[0])
    assert scores_of(folder, "late-run") == pytest.approx(expected, abs=1e-4)
    capsys.readouterr()
    assert run(["pipeline", recipe, "--out", out, "--frozen"])[0] == 0
    stages = json.loads((folder / "work" / "summary.json").read_text())["stages"]
    assert all(stage["reused"] for stage in stages.values())


def test_any_file_that_the_library_may_read_decides_the_fingerprint(folder):
    recipe, out = str(folder / "recipe.yaml"), str(folder / "work")
    assert run(["pipeline", recipe, "--out", out])[0] == 0
    model = folder / "dense" / "model"
    (model / "README.md").write_text("# another card")
    shutil.copytree(model / "1_Pooling", model / "onnx")
    assert run(["pipeline", recipe, "--out", out, "--frozen"])[0] == 0
    (model / "vocab.txt").write_text("a\n")
    assert run(["pipeline", recipe, "--out", out, "--frozen"])[0] == 4


def test_a_stage_takes_no_other_score_of_late_interaction(folder, capsys):
    changed = ["stages.late-run.score=probability", "--out", str(folder / "work")]
    assert run(["pipeline", str(folder / "recipe.yaml"), *changed])[0] == 2
    assert "score: expected raw, as late interaction scores" in capsys.readouterr().err
    assert not (folder / "work" / "stores").exists()


def test_model_show_says_who_computes_the_model_and_why(folder, capsys):
    assert run(["model", "show", str(folder / "dense" / "model")])[0] == 0
    told = capsys.readouterr().out
    assert "sentence-transformers computes this model: model_type 'mpnet' is not among" in told
    assert "run:   (config_sentence_transformers.json prompts.query)" in told
    assert run(["model", "show", str(folder / "late" / "model")])[0] == 0
    assert "as MultiVectorEncoder" in capsys.readouterr().out
