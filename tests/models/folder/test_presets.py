import json
from dataclasses import replace

import pytest
from model_parts import DUO, ENCODER, MONO

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.settings import (
    PRESETS,
    PairConventions,
    conventions_problems,
)


def test_presets_are_those_of_the_papers_and_their_code():
    repbert, minilm = PRESETS["repbert"], PRESETS["minilm"]
    assert (repbert.pooling, repbert.normalise, repbert.segment("passage")) == ("mean", False, 1)
    assert (repbert.limit("query"), repbert.limit("passage")) == (20, 256)
    assert (minilm.pooling, minilm.normalise, minilm.segment("passage")) == ("mean", True, 0)
    assert (minilm.limit("query"), minilm.limit("passage")) == (254, 254)
    splade = PRESETS["splade"]
    assert (splade.pooling, splade.segment("query"), splade.segment("passage")) == ("splade", 0, 0)
    assert (splade.limit("query"), splade.limit("passage")) == (254, 254)
    limits = {
        name: (each.query_limit, each.passage_limit, each.total_limit)
        for name, each in PRESETS.items()
        if isinstance(each, PairConventions)
    }
    assert limits == {
        "monobert": (64, None, 512),
        "monobert-reference": (62, None, 511),
        "monobert-longest-first": (None, None, 512),
        "duobert": (62, 223, 512),
        "duobert-reference": (62, None, 510),
        "monot5": (256, None, 512),
        "monot5-mmarco": (256, None, 512),
        "duot5": (128, None, 512),
    }
    as_in_the_authors_code = {name for name in limits if PRESETS[name].first_tokenizer}
    assert as_in_the_authors_code == {"monobert-reference", "duobert-reference"}
    answers = {name: PRESETS[name].answers for name in limits if PRESETS[name].prompt}
    truth = ("false", "true")
    assert answers == {"monot5": truth, "monot5-mmarco": ("no", "yes"), "duot5": truth}
    for name, each in PRESETS.items():
        assert conventions_problems(each) == [], name
        if isinstance(each, PairConventions):
            assert each.relevant_label == 1 and each.num_passages == (2 if "duo" in name else 1)
            assert each.score == ("probability" if "duo" in name else "log-probability")


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (replace(ENCODER, kind="dense"), "kind"),
        (replace(ENCODER, query_table="x" * 256), "query_table"),
        (replace(ENCODER, query_table="é" * 128), "query_table"),
        (replace(ENCODER, query_table="\0"), "query_table"),
        (replace(ENCODER, query_table="\ud800"), "query_table"),
        (replace(ENCODER, pooling="sum"), "pooling"),
        (replace(ENCODER, query_limit=0), "query_limit"),
        (replace(ENCODER, passage_limit=True), "passage_limit"),
        (replace(MONO, query_limit=0), "query_limit"),
        (replace(MONO, total_limit=4), "total_limit"),
        (replace(MONO, relevant_label=2), "relevant_label"),
        (replace(MONO, blend=-1.0), "blend"),
        (replace(MONO, blend=float("nan")), "blend"),
        (replace(MONO, blend=float("inf")), "blend"),
        (replace(MONO, blend=True), "blend"),
        (replace(MONO, blend="2"), "blend"),
        (replace(DUO, blend=2.0), "blend"),
        (replace(MONO, blend_over_bm25=-1.0), "blend_over_bm25"),
        (replace(DUO, blend_over_bm25=2.0), "blend_over_bm25"),
        (replace(MONO, relevant_label=True), "relevant_label"),
        (replace(MONO, relevant_label=1.0), "relevant_label"),
        (replace(MONO, score="odds"), "score"),
        (replace(MONO, segment_row="one"), "segment_row"),
        (replace(DUO, score="raw"), "score"),
        (replace(DUO, query_limit=None, passage_limit=None), "query_limit"),
        (replace(MONO, query_limit=None, passage_limit=5), "passage_limit"),
        (replace(DUO, total_limit=14), "total_limit"),  # 3 + 2 + 2 * 5 = 15
        (replace(MONO, total_limit=6), "total_limit"),  # 3 + 2 + 2 = 7
        (replace(MONO, passage_limit=11), "total_limit"),  # 3 + 2 + 12 = 17
    ],
)
def test_conventions_that_feed_no_model_are_told_by_field(found, field):
    (problem,) = conventions_problems(found)
    assert problem.startswith(f"{field}: ")


@pytest.mark.parametrize(
    "found",
    [
        replace(ENCODER, pooling="cls", query_limit=1),
        replace(MONO, total_limit=7),
        replace(MONO, passage_limit=10),
        replace(MONO, query_limit=None, total_limit=5),
        replace(MONO, relevant_label=0),
        replace(ENCODER, query_table="é" * 127 + "x"),
        replace(MONO, relevant_label=None, score="raw"),
        replace(DUO, total_limit=15),
        replace(DUO, segment_row="copy"),
        replace(DUO, query_limit=1, passage_limit=None, total_limit=7),
    ],
)
def test_conventions_exactly_at_their_bounds_are_taken(found):
    assert conventions_problems(found) == []


def test_fields_are_read_beside_the_weights_and_records_passed_over(tmp_path):
    path = tmp_path / "raypipe.json"
    body = {"kind": "mono", "query_limit": 3, "passage_limit": None, "total_limit": 16}
    body |= {"relevant_label": 1, "score": "raw", "made_by": {"x": 1}, "base": "b"}
    path.write_text(json.dumps(body))
    assert discover(ModelFiles(tmp_path), None).conventions == replace(MONO, score="raw")
    path.write_text(json.dumps({**body, "colour": "red"}))
    with pytest.raises(InputError, match="colour.*expected a JSON object with kind, query_limit"):
        discover(ModelFiles(tmp_path), None)
    for text in ("[1, 2]", "3", '"mono"'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"raypipe\.json: expected a JSON object, found"):
            discover(ModelFiles(tmp_path), None)
    path.write_text("{")
    with pytest.raises(InputError, match=r"raypipe\.json: expected JSON, found"):
        discover(ModelFiles(tmp_path), None)
    known = "encoder, mono, duo or pretrained"
    for kind, found in ((None, "None"), ("Mono", "'Mono'"), (["mono"], r"\['mono'\]")):
        path.write_text(json.dumps({**body, "kind": kind}))
        with pytest.raises(InputError, match=f"kind: expected {known}, found {found}"):
            discover(ModelFiles(tmp_path), None)
    path.write_text(json.dumps({"base": "minilm"}))
    with pytest.raises(InputError, match=f"kind: expected {known}, found nothing"):
        discover(ModelFiles(tmp_path), None)
    with pytest.raises(InputError, match="did you mean monobert"):
        discover(ModelFiles(tmp_path), "monobrt")
    with pytest.raises(InputError, match="nothing says"):
        discover(ModelFiles(tmp_path / "nowhere"), None)
