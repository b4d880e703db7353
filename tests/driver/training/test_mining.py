"""Negatives that a training searches for itself, between its rounds, and a model as the teacher."""

import json

import pytest
import yaml
from small_training import phases_of
from stopped_training import stopped_at

import raypipe
from raypipe.config.load import load_training
from raypipe.errors import InputError, Interrupted
from raypipe.storage.records import unseal
from raypipe.training.examples import map_examples

ENCODER = {"preset": "repbert", "query_limit": 12, "passage_limit": 40, "total_limit": None}
LOSS = {"name": "info-nce"}
ROUND = {"steps": 4, "validate": {"every": 2}, "optimiser": {"rate": 1.0e-2, "warmup": 2}}


@pytest.fixture
def mined(small_recipe):
    """A function that writes the recipe of an encoder; its negatives have these keys."""

    def write(name="recipe", *, model=None, steps=8, teacher=None, **negatives):
        path = small_recipe(
            name, **{**ROUND, "model": {**ENCODER, **(model or {})}, "loss": LOSS, "steps": steps}
        )
        body = yaml.safe_load(path.read_text())
        docs = body["train"]["docs"]
        docs["negatives"] = {"last": 20, **negatives}
        if teacher is not None:
            docs["teacher"], body["loss"] = teacher, {"name": "margin-mse"}
        path.write_text(yaml.safe_dump(body, sort_keys=False))
        return path

    return write


def by_hand(model, small_files, out, teacher=None, k0=20):
    """The runs of a pipeline that searches with this model and scores what it finds."""
    limits = {"query_limit": 12, "passage_limit": 40}
    recipe = {
        "format": 1,
        "name": "by-hand",
        "collection": {"format": "msmarco-v1", "input": str(small_files / "passages.tsv")},
        "queries": {"train": {"file": str(small_files / "queries.train.tsv")}},
        "models": {"own": {"path": str(model), "preset": "repbert", "settings": limits}},
        "stages": {
            "embeddings": {"do": "encode", "model": "own"},
            "found": {"do": "search", "index": "embeddings", "depth": 20},
        },
        "resources": {"backend": "inline"},
    }
    if teacher is not None:
        recipe["models"]["teacher"] = {"path": str(teacher)}
        scored = {"do": "score", "run": "found", "model": "teacher", "k0": k0, "tail": "drop"}
        recipe["stages"]["scored"] = scored
    raypipe.run(recipe, out)
    return out / "runs" / "train" / "found.trec", out / "runs" / "train" / "scored.trec"


def equal(one, other):
    return one.keys() == other.keys() and all((one[key] == other[key]).all() for key in one)


@pytest.mark.slow
def test_each_round_learns_from_what_the_model_before_it_finds(
    mined, train, weights, small_files, tiny_model, tmp_path
):
    """By hand: a search and a training with its file, twice."""
    out, hand, model = tmp_path / "out", tmp_path / "hand", tiny_model
    rounds = train(mined(mine={"every": 4}), out).summary["phases"]
    for number, (phase, name) in enumerate([("round-1", "small.round-1"), ("round-2", "small")]):
        run, _ = by_hand(model, small_files, hand / f"search-{number}")
        path = mined("by-hand", model={"start": str(model)}, steps=4, runs=str(run))
        step = train(path, hand / phase, f"seed={number}")
        assert equal(weights(out, name), weights(hand / phase))
        assert rounds[phase]["history"] == step.summary["history"]
        assert rounds[phase]["examples"]["docs"]["negatives_from"] == ["mined with last"]
        model = step.model
    assert load_training(out / "recipe.yaml") == load_training(mined(mine={"every": 4}))


def test_what_the_search_finds_again_under_another_id_is_no_negative(
    mined, train, small_files, tmp_path
):
    """Every passage stands twice in the collection, so the search finds both or none."""
    texts = [x.split("\t", 1) for x in (small_files / "passages.tsv").read_text().splitlines()]
    twice = tmp_path / "twice.tsv"
    lines = [f"{prefix}{key}\t{text}\n" for prefix in ("", "copy-") for key, text in texts]
    twice.write_text("".join(lines))
    path = mined(mine={"with": "last", "every": 4}, steps=4)
    said = []
    train(path, tmp_path / "out", f"collections.docs.input={twice}", "near_copy=same", said=said)
    (line,) = [each for each in said if each.startswith("train: docs: ")]
    assert " negatives with the text of a passage that is relevant for their query" in line
    (record,) = (tmp_path / "out" / "stores").glob("examples@*/*/shards/*")
    sha256 = unseal(record.name, record.read_bytes())["sha256"]
    found = map_examples(tmp_path / "out" / "stores" / "blobs" / sha256[:2] / sha256)
    relevant, others = found.passage_rows[:, 0], found.passage_rows[:, 1:]
    assert len(found.query_rows) and (others % len(texts) != relevant[:, None] % len(texts)).all()
    judged = found.are_relevant(found.query_rows, relevant)
    copied = found.are_relevant(found.query_rows[:, None], others)
    assert judged.all() and not copied.any()


def test_a_run_of_ones_own_and_the_mined_one_are_both_drawn_from(mined, train, tmp_path):
    """An example needs more passages than either has."""
    own = {"runs": str(tmp_path / "train.trec")}
    for number, sources in enumerate([own, {"mine": {}}]):
        with pytest.raises(InputError, match="no example is left"):
            train(mined(**sources, steps=4, per_example=22), tmp_path / f"alone-{number}")
    facts = train(mined(**own, mine={}, steps=4, per_example=22), tmp_path / "out").summary
    assert facts["examples"]["docs"]["negatives_from"] == [own["runs"], "mined with last"]


@pytest.mark.slow
def test_rounds_that_are_killed_end_with_the_weights_of_undisturbed_ones(
    mined, train, weights, tmp_path, monkeypatch
):
    calm, cut, path = tmp_path / "calm", tmp_path / "cut", mined(mine={"every": 4}, steps=12)
    train(path, calm)
    for _ in range(3):
        with stopped_at(monkeypatch, 3), pytest.raises(Interrupted):
            train(path, cut)
    train(path, cut)
    for name in ("small.round-1", "small.round-2", "small"):
        one, other = weights(calm, name), weights(cut, name)
        assert all((one[k] == other[k]).all() for k in one)


@pytest.mark.slow
def test_a_reranker_learns_from_what_an_earlier_phases_encoder_finds(mined, train, tmp_path):
    docs = yaml.safe_load(mined(mine={}).read_text())["train"]["docs"]
    found = {"docs": {**docs, "negatives": {"last": 10, "mine": {"with": "part-1"}}}}
    mono = {"preset": "monobert", "total_limit": 64, "passage_limit": None, "draw_missing": True}
    second = {"model": mono, "loss": {"name": "cross-entropy"}, "train": found, "steps": 4}
    path = phases_of(mined(mine={}), {"steps": 4}, second)
    told = train(path, tmp_path / "out").summary
    assert told["examples"]["docs"]["negatives_from"] == ["mined with part-1"]
    body = path.read_text()
    path.write_text(body.replace("with: part-1", "with: last"))
    assert train(path, tmp_path / "last").summary["examples"] == told["examples"] | {
        "docs": {**told["examples"]["docs"], "negatives_from": ["mined with last"]}
    }


@pytest.mark.slow
def test_a_model_as_the_teacher_scores_what_the_search_finds(
    mined, train, weights, small_files, tiny_model, tiny_mono, tmp_path
):
    """By hand: the same run, scored in a pipeline."""
    run, scored = by_hand(tiny_model, small_files, tmp_path / "hand", tiny_mono)
    files = mined("files", steps=4, runs=str(run), teacher=str(scored))
    mine = mined(mine={}, steps=4, teacher=str(tiny_mono))
    told = [train(path, tmp_path / path.stem).summary for path in (files, mine)]
    assert equal(weights(tmp_path / "files"), weights(tmp_path / "recipe"))
    facts = [each["examples"]["docs"] for each in told]
    assert facts[0]["short"] == facts[1]["short"] and facts[0]["examples"] > 0
    # Of a longer run it scores no more than `last`: a relevant passage behind it has no score.
    _, few = by_hand(tiny_model, small_files, tmp_path / "few", tiny_mono, k0=10)
    for name, teacher in (("scored", few), ("model", tiny_mono)):
        path = mined(name, steps=4, runs=str(run), last=10, teacher=str(teacher))
        told.append(train(path, tmp_path / name).summary["examples"]["docs"]["short"])
    assert told[2] == told[3] and told[3]["without_teacher"] > facts[1]["short"]["without_teacher"]
    assert equal(weights(tmp_path / "scored"), weights(tmp_path / "model"))


def test_the_search_goes_to_the_last_rank_in_the_trainings_precision_as_the_teacher_does(
    mined, train, tiny_mono, with_bf16, tmp_path
):
    path = mined(mine={}, steps=4, teacher=str(tiny_mono))
    train(path, tmp_path / "out", "resources.precision=bf16")
    specs = {each.parts[-3]: each.read_text() for each in tmp_path.glob("out/stores/*/*/spec.json")}
    scores = "scores@train-docs-teacher.train-docs"
    for name in ("start-encoded", "start-encoded.train-docs", scores):
        assert "bf16" in specs[name], name
    run = json.loads(specs["parts@train-docs-run-0.train-docs"])
    assert run["body"]["params"]["depth"] == 20


def test_the_warm_up_of_a_penalty_is_that_of_the_first_round(mined):
    path = mined(mine={"every": 4}, model={"preset": "splade"})
    flops = "loss.flops={queries: 0.1, passages: 0.2, warmup: 3}"
    adapter = "model.adapter={rank: 2, start: before}"
    first, second = load_training(path, overrides=[flops, adapter, "seed=7"]).phases
    assert first.training.model.adapter.start.endswith("before")
    assert (second.training.model.adapter.rank, second.training.model.adapter.start) == (2, None)
    assert [each.training.loss.flops.warmup for each in (first, second)] == [3, 0]
    assert second.training.loss.flops.passages == 0.2
    assert [each.training.seed for each in (first, second)] == [7, 8]
    assert (first.after, second.after) == (None, "round-1")


def test_no_phase_has_the_name_of_what_it_begins_from(mined):
    with pytest.raises(InputError, match="phases.0.name: expected another name than last"):
        load_training(phases_of(mined(mine={}), {"name": "last", **ROUND}, {**ROUND}))


def test_phases_after_one_with_rounds_begin_from_its_last(mined):
    phases = {"name": "whole", "steps": 12, "train": yaml.safe_load(mined().read_text())["train"]}
    phases["train"]["docs"]["negatives"]["mine"] = {"every": 4}
    path = phases_of(mined(mine={}), {"name": "whole-2", **ROUND}, phases, {**ROUND})
    with pytest.raises(InputError, match="phases: whole-2: expected a name .* that no round"):
        load_training(path)
    text = path.read_text()
    path.write_text(text.replace("name: whole-2", "name: before"))
    found = load_training(path).phases
    names = ["before", "whole-1", "whole-2", "whole", "part-3"]
    assert [phase.name for phase in found] == names
    assert [phase.after for phase in found] == [None, *names[:-1]]


MINE = "train.docs.negatives.mine="


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["train.docs.negatives={last: 5}"], "negatives.runs: missing; give run files, mine"),
        ([f"{MINE}{{every: 3}}"], "expected steps that are a multiple of it, 3; found 8"),
        ([f"{MINE}{{every: 4}}", "steps=", "epochs=1.0"], "a multiple of it, 4; found epochs"),
        ([f"{MINE}{{every: 2}}"], "exceed half of the 2 steps"),
        ([f"{MINE}{{with: first}}"], "mine.with: expected an earlier phase; there are last"),
        ([f"{MINE}{{every: 4, to: 3}}"], "mine.to: unknown key"),
        ([f"{MINE}{{every: 4}}", "model.preset=monobert", "model.passage_limit="],
         "only for an encoder, which searches; a mono model does not"),
    ],
)  # fmt: skip
def test_what_cannot_be_mined_is_refused(mined, overrides, said):
    with pytest.raises(InputError, match=said):
        load_training(mined(mine={}), overrides=overrides)


def test_a_model_that_cannot_teach_is_refused_before_any_work(
    mined, train, tiny_model, tiny_mono, tiny_duo, tmp_path
):
    """In a later phase too, before the first one is trained."""
    taught = yaml.safe_load(mined(mine={}, teacher=str(tiny_duo)).read_text())
    second = {"train": taught["train"], "loss": taught["loss"], "steps": 4}
    path, out = phases_of(mined(mine={}), {"steps": 4}, second), tmp_path / "out"
    key = "train.docs.teacher: "
    with pytest.raises(InputError, match=f"phase part-2: {key}{tiny_duo}: expected a monoBERT"):
        train(path, out)
    both = mined("both", mine={}, runs=str(tmp_path / "train.trec"), teacher=str(tiny_mono))
    with pytest.raises(InputError, match=f"{key}{tiny_mono}: it scores one run; give one file"):
        train(both, out)
    with pytest.raises(InputError, match=f"{key}.* found one of kind encoder"):
        train(mined("bare", mine={}, teacher=str(tiny_model)), out)
    assert not (out / "stores").exists()


def test_a_search_by_a_reranker_is_refused_before_any_work(mined, train, tmp_path):
    mono = {"preset": "monobert", "total_limit": 64, "passage_limit": None, "draw_missing": True}
    path = mined(mine={}, model=mono)
    with pytest.raises(InputError, match="negatives.mine: expected an encoder, which searches; "):
        train(path, tmp_path / "out", "loss.name=cross-entropy")
    assert not (tmp_path / "out" / "stores").exists()
