"""Limits, poolings and whose word counts, by hand."""

import pytest
from json_files import write

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.modules import ModelFiles


def sentence(folder, modules=("Transformer", "Pooling"), pooling=None, **files):
    places = ["", *(f"{n}_{name}" for n, name in enumerate(modules) if n)]
    listed = [{"type": name, "path": p} for name, p in zip(modules, places, strict=True)]
    write(folder / "modules.json", listed)
    write(folder / "1_Pooling" / "config.json", pooling or {"pooling_mode": "mean"})
    files = {"config": {"max_position_embeddings": 9}, **files}
    for name, body in files.items():
        write(folder / f"{name}.json", body)
    return folder


@pytest.mark.parametrize(("stated", "limit"), [(3, 1), (2, None), (30, 28), ("9", None)])
def test_a_sentence_transformers_limit_leaves_room_for_the_specials(tmp_path, stated, limit):
    folder = sentence(tmp_path, sentence_bert_config={"max_seq_length": stated})
    if limit is None:
        with pytest.raises(InputError) as told:
            discover(ModelFiles(folder), None)
        assert [p.split(": ")[1] for p in told.value.problems] == ["query_limit", "passage_limit"]
        assert all(f"positions above 2, found {stated!r}" in p for p in told.value.problems)
        write(folder / "raypipe.json", {"query_limit": 4, "passage_limit": 5})
        found = discover(ModelFiles(folder), None)
        assert (found.conventions.query_limit, found.conventions.passage_limit) == (4, 5)
        assert found.sources["query_limit"] == "raypipe.json"
    else:
        found = discover(ModelFiles(folder), None).conventions
        assert (found.query_limit, found.passage_limit) == (limit, limit)


@pytest.mark.parametrize(
    ("pooling", "prompts", "good"),
    [
        ({"pooling_mode": ["cls"]}, {"query": "q"}, True),
        ({"pooling_mode": ["mean", "cls"]}, {}, False),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, {}, True),
    ],
)
def test_poolings_that_are_read(tmp_path, pooling, prompts, good):
    files = {"config_sentence_transformers": {"prompts": prompts}}
    folder = sentence(tmp_path, pooling=pooling, **files)
    if good:
        name = "cls" if pooling.get("pooling_mode") == ["cls"] else "mean"
        assert discover(ModelFiles(folder), None).conventions.pooling == name
    else:
        with pytest.raises(InputError, match="its pooling is mean and cls: "):
            discover(ModelFiles(folder), None)


@pytest.mark.parametrize(
    ("modules", "stated", "noted"),
    [
        (("Transformer", "Pooling"), "cosine", True),
        (("Transformer", "Pooling"), "dot", False),
        (("Transformer", "Pooling"), None, False),
        (("Transformer", "Pooling", "Normalize"), "cosine", False),
    ],
)
def test_a_cosine_without_normalise_is_noted_until_somebody_decides(
    tmp_path, modules, stated, noted
):
    files = {"config_sentence_transformers": {"similarity_fn_name": stated}}
    folder = sentence(tmp_path, modules, **files)
    found = discover(ModelFiles(folder), None)
    assert found.conventions.normalise is ("Normalize" in modules)
    assert bool(found.notes) is noted
    assert found.sources["normalise"].startswith("modules.json: ")
    write(folder / "raypipe.json", {"normalise": True})
    assert (
        discover(ModelFiles(folder), None).notes == []
        and discover(ModelFiles(folder), None).conventions.normalise
    )


def test_whose_word_counts_preset_raypipe_json_or_the_files(tmp_path):
    folder = sentence(tmp_path)
    write(folder / "raypipe.json", {"kind": "encoder", "query_limit": 3})
    found = discover(ModelFiles(folder), None)
    assert (found.conventions.query_limit, found.conventions.passage_limit) == (3, 7)
    assert found.sources["query_limit"] == "raypipe.json"
    assert found.sources["start_weights_saw"] == "default"
    assert discover(ModelFiles(folder), "repbert").sources["pooling"] == "preset repbert"
    assert discover(ModelFiles(folder), "repbert").conventions.query_limit == 20
    body = {"kind": "mono", "query_limit": 3, "passage_limit": None, "total_limit": 16}
    body |= {"relevant_label": 1, "score": "raw", "made_by": {}, "base": "x"}
    write(folder / "raypipe.json", body)  # all that has no default: the files are not asked
    found = discover(ModelFiles(folder), None)
    assert found.conventions.kind == "mono" and "made_by" not in found.sources
    assert found.sources["score"] == "raypipe.json"
    assert found.sources["query_prefix"] == "default"
    write(folder / "raypipe.json", {"kind": "mono", "query_limit": 3})  # another kind, not whole
    with pytest.raises(InputError, match="total_limit: expected a count of tokens, found nothing"):
        discover(ModelFiles(folder), None)
    write(folder / "raypipe.json", {"kind": "encoder", "pooling": "sum"})
    known = "mean, cls, max, last, splade or splade-log1p"
    with pytest.raises(InputError, match=f"pooling: expected {known}, found 'sum'"):
        discover(ModelFiles(folder), None)
    write(folder / "raypipe.json", {"query_limit": 0})
    with pytest.raises(InputError, match=r"encoder|query_limit: expected a count"):
        discover(ModelFiles(folder), None)
