"""`raypipe train` whole: the model that comes out, what it learns from, what is refused."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raypipe.config import load_training
from raypipe.errors import InputError


def test_the_model_scores_and_opens_in_transformers_with_equal_numbers(
    small_recipe, train, tmp_path
):
    from transformers import AutoModelForSequenceClassification

    from raypipe.models.folder.loading import layouts_of, resolve_model
    from raypipe.models.scorer import load_scorer
    from raypipe.text.pairs import TextSlice

    said = []
    trained = train(small_recipe(), tmp_path / "out", said=said)
    model = resolve_model(str(trained.model))
    assert model.reranker.kind == "mono"
    layout = layouts_of(model)["pair"]
    cls_id, sep_id = layout.first, layout.last
    query, passage = [10, 11], [20, 21, 22]
    parts = [
        TextSlice(np.array(p, np.uint16), np.array([0]), np.array([len(p)]))
        for p in (query, passage)
    ]
    score = load_scorer(model).score(parts[0], [parts[1]])[0]
    theirs = AutoModelForSequenceClassification.from_pretrained(trained.model).eval()
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor([[cls_id, *query, sep_id, *passage, sep_id]]),
            token_type_ids=torch.tensor([[0] * 4 + [1] * 4]),
        ).logits
    assert score == pytest.approx(torch.log_softmax(logits, 1)[0, 1].item(), abs=1e-5)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "complete"
    steps = [each["step"] for each in summary["history"]]
    assert steps == [4, 8, 12]
    best = max(summary["history"], key=lambda each: each["mean"])
    assert summary["step"] == best["step"]
    assert "no test figures" in trained.table
    assert any(line.startswith("guard: docs: dropped") for line in said)
    lines = (tmp_path / "out" / "train" / "progress.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [e["step"] for e in told if "loss" in e] == list(range(1, 13))
    assert {"loss", "rate", "gradient_norm", "tokens", "seconds"} <= told[0].keys()
    assert list((tmp_path / "out" / "train" / "tensorboard").iterdir())


@pytest.mark.parametrize(
    ("preset", "limits", "loss"),
    [
        ("duobert", {"query_limit": 12, "passage_limit": 20, "total_limit": 64}, "cross-entropy"),
        (
            "repbert",
            {"query_limit": 20, "passage_limit": 40, "total_limit": None},
            "multi-label-margin",
        ),
        ("repbert", {"query_limit": 20, "passage_limit": 40, "total_limit": None}, "info-nce"),
        ("monobert", {"query_limit": 12, "total_limit": 64, "head": 1}, "pairwise-hinge"),
    ],
)
def test_every_kind_trains_and_loads(
    small_recipe, weights, train, tiny_model, tmp_path, preset, limits, loss
):
    from raypipe.models.encoder import load_encoder
    from raypipe.models.folder.loading import resolve_model
    from raypipe.models.scorer import load_scorer

    model = {"start": str(tiny_model), "preset": preset, **limits}
    body = {"model": model, "loss": {"name": loss}, "steps": 4}
    path = small_recipe(**body)
    trained = train(path, tmp_path / "out")
    found = resolve_model(str(trained.model))
    (load_encoder if preset == "repbert" else load_scorer)(found)
    start = load_file(tiny_model / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    now = weights(tmp_path / "out")
    assert not torch.equal(now.get(name, now.get(f"bert.{name}")), start[name])


def test_an_adapter_is_merged_by_peft_to_the_model_that_was_trained(
    small_recipe, weights, train, tiny, tmp_path
):
    from raypipe.models.folder.loading import load_weights, resolve_model

    for kind, limits in (("monobert", {}), ("duobert", {"passage_limit": 20})):
        start = tiny.make_tiny_bert(tmp_path / f"start-{kind}")
        model = {"start": str(start), "preset": kind, "adapter": {"rank": 2, "alpha": 4.0}}
        recipe = small_recipe(model={**model, **limits}, optimiser={"rate": 1e-2, "warmup": 2})
        trained = train(recipe, tmp_path / kind)
        whole = weights(tmp_path / kind)
        adapter = trained.model / "adapter"
        told = json.loads((adapter / "raypipe.json").read_text())
        assert told["base"] == str(start)
        merged = load_weights(resolve_model(str(adapter)))
        moved = 0
        base = load_file(start / "model.safetensors")
        for name, tensor in whole.items():
            assert (merged[name] - tensor).abs().max() < 2e-3, name  # half precision on disk
            own = base.get(name.removeprefix("bert."))
            moved += own is not None and own.shape == tensor.shape and not torch.equal(own, tensor)
        assert moved >= 12


def test_an_adapter_that_began_from_another_says_what_both_were_trained_on(
    small_recipe, train, tiny, tmp_path
):
    start = tiny.make_tiny_bert(tmp_path / "start")
    model = {"start": str(start), "adapter": {"rank": 2, "alpha": 4.0}}
    first = train(small_recipe(model=model, steps=6), tmp_path / "first").model / "adapter"
    model["adapter"] = {**model["adapter"], "start": str(first)}
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    (tmp_path / "train.trec").write_text(
        "".join(" ".join(row) + "\n" for row in run if int(row[3]) > 15)
    )
    trained = train(small_recipe(model=model, steps=6), tmp_path / "second")
    second, summary = trained.model / "adapter", trained.summary
    told = json.loads((second / "raypipe.json").read_text())
    assert "; then docs (small); then docs (small)" in told["start_weights_saw"]
    assert told["made_by"]["step"] == summary["step"]
    before, after = (set(np.load(f / "trained_on.npy").tolist()) for f in (first, second))
    assert before < after


def test_all_problems_of_a_recipe_are_told_at_once(small_recipe):
    path = small_recipe(
        steps=10,
        optimiser={"rate": 1e-3, "warmup": 6},
        loss={"name": "info-nce"},
        dev={"docs": {"collection": "dcos", "queries": "q", "qrels": "r", "run": "s"}},
    )
    with pytest.raises(InputError) as error:
        load_training(path)
    told = "\n".join(error.value.problems)
    assert "optimiser.warmup: 6 steps of warm-up exceed half of the 10 steps" in told
    assert "loss.name: expected a loss of mono models" in told
    assert "dev.docs.collection: no such collection; did you mean docs?" in told
    assert "line" in told


def test_unknown_keys_name_the_nearest(small_recipe):
    with pytest.raises(InputError, match="optimiser.warmpu: unknown key; did you mean warmup"):
        load_training(small_recipe(optimiser={"warmpu": 3}))


def test_missing_files_are_all_told(small_recipe, train, tmp_path):
    path = small_recipe(guard={"test": {"queries": "gone.tsv"}})
    with pytest.raises(InputError, match="gone.tsv: no such file"):
        train(path, tmp_path / "out")


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_its_checkpoints(
    small_recipe, train, tmp_path
):
    path = small_recipe(optimiser={"rate": 1e30, "warmup": 0, "clip": 0.0}, checkpoint_every=1)
    with pytest.raises(InputError, match="step .*: the loss is nan.* lower optimiser.rate"):
        train(path, tmp_path / "out")
    assert list((tmp_path / "out" / "stores" / "weights@small").glob("*/steps/*.json"))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["status"], summary["exit"]) == ("failed", 2)


def test_triples_by_id_are_trained_on_without_guarded_queries(
    small_recipe, train, small_files, tmp_path
):
    queries = [
        line.split("\t") for line in (small_files / "queries.train.tsv").read_text().splitlines()
    ]
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    triples = tmp_path / "qidpidtriples.tsv"
    triples.write_text(
        "".join(f"{q}\t{ids[n]}\t{ids[n + 1]}\n" for n, (q, _) in enumerate(queries))
    )
    guard = tmp_path / "guard.tsv"
    guard.write_text(f"x\t{queries[0][1].upper()}\n")
    train_set = {
        "collection": "docs",
        "queries": str(small_files / "queries.train.tsv"),
        "triples": str(triples),
    }
    path = small_recipe(train={"docs": train_set}, guard={"test": {"queries": str(guard)}})
    trained = train(path, tmp_path / "out")
    facts = trained.summary["examples"]["docs"]
    assert facts["dropped"]["same_query"] == 1
    assert facts["examples"] == len(queries) - 1 - facts["dropped"]["near_query"]
    triples.write_text("nobody\ta\tb\n")
    with pytest.raises(InputError, match="line 1: nobody a b: an id is not in"):
        train(path, tmp_path / "other")


def test_triples_of_texts_are_split_once_and_trained_on_like_triples_by_id(
    small_recipe, train, tmp_path
):
    lines = [f"what is topic {n}\tabout topic {n % 5}\tabout topic {n % 5 + 5}" for n in range(20)]
    file = tmp_path / "triples.tsv"
    file.write_text("\n".join(lines) + "\n")
    path = small_recipe(train={"docs": None, "small": {"texts": str(file)}})
    trained = train(path, tmp_path / "out")
    assert trained.summary["examples"]["small"]["examples"] == 20
    folder = tmp_path / "out" / "triples" / "small"
    assert len((folder / "passages.tsv").read_text().splitlines()) == 10
    assert (folder / "triples.tsv").read_text().splitlines()[7] == "7\t4\t5"
    before = (folder / "triples.tsv").stat().st_mtime_ns
    train(path, tmp_path / "out", "seed=3")
    assert (folder / "triples.tsv").stat().st_mtime_ns == before
    file.write_text("only two\tcolumns\n")
    with pytest.raises(InputError, match="line 1: expected query, relevant and irrelevant"):
        train(path, tmp_path / "other")


def test_smaller_training_sizes_are_parts_of_larger_ones(small_recipe, train, tmp_path):
    def examples(count):
        from raypipe.storage.records import unseal
        from raypipe.training.examples.table import map_examples

        body = small_recipe(f"size-{count}")
        text = body.read_text().replace(
            "    negatives:", f"    examples_at_most: {count}\n    negatives:"
        )
        body.write_text(text)
        train(body, tmp_path / str(count), "steps=4")
        (record,) = (tmp_path / str(count) / "stores" / "examples@docs").glob("*/shards/*")
        sha256 = unseal(record.name, record.read_bytes())["sha256"]
        found = map_examples(tmp_path / str(count) / f"stores/blobs/{sha256[:2]}/{sha256}")
        rows = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
        return {(query, *passages) for query, passages in rows}

    small, large = examples(10), examples(25)
    assert len(small) == 10 and len(large) == 25
    assert small < large


@pytest.mark.parametrize("loss", ["margin-mse", "kl"])
def test_a_teachers_run_is_learnt_from(small_recipe, train, small_files, tmp_path, loss):
    path = small_recipe(loss={"name": loss})
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    judged = (small_files / "qrels.train.txt").read_text().splitlines()
    scores = {(row[0], row[2]): float(row[4]) for row in run}
    scores |= {(line.split()[0], line.split()[2]): 2.0 for line in judged[1:]}
    teacher = tmp_path / "teacher.trec"
    lines = [f"{q} Q0 {p} 1 {score} teacher\n" for (q, p), score in sorted(scores.items())]
    teacher.write_text("".join(lines))
    path.write_text(
        path.read_text().replace("    negatives:", f"    teacher: {teacher}\n    negatives:")
    )
    trained = train(path, tmp_path / "out")
    facts = trained.summary["examples"]["docs"]
    # Every judged passage but the first has a score; the first has one only if its run holds it.
    without = (judged[0].split()[0], judged[0].split()[2]) not in scores
    assert facts["short"]["without_teacher"] == int(without)
    assert facts["examples"] == len(judged) - int(without) - facts["short"]["without_negatives"]
    with pytest.raises(InputError, match="learns from its scores"):
        load_training(small_recipe("no-teacher", loss={"name": loss}))


def test_passages_judged_for_an_evaluation_are_left_out_of_both_sides(
    small_recipe, train, small_files, tmp_path
):
    test = {
        "queries": str(small_files / "queries.test.tsv"),
        "qrels": str(small_files / "qrels.test.txt"),
        "collection": "docs",
        "leave_out_passages": True,
    }
    trained = train(small_recipe(guard={"test": test}), tmp_path / "out")
    dropped = trained.summary["examples"]["docs"]["dropped"]
    judged = {line.split()[2] for line in (small_files / "qrels.test.txt").read_text().splitlines()}
    run = [line.split() for line in (tmp_path / "train.trec").read_text().splitlines()]
    assert dropped["left_out_negative"] == sum(row[2] in judged for row in run) > 0
    with pytest.raises(InputError, match="leave_out_passages: needs qrels and collection"):
        load_training(small_recipe(guard={"test": {**test, "collection": None}}))


def test_several_dev_sets_are_averaged(small_recipe, train, small_files, tmp_path):
    path = small_recipe(steps=4, validate={"every": 4})
    text = path.read_text()
    start = text.index("dev:\n")
    block = text[start:].split("guard:")[0]
    again = block.replace("dev:\n", "").replace("  docs:", "  more:", 1).replace("k: 10", "k: 3")
    path.write_text(text.replace(block, block + again))
    (measured,) = train(path, tmp_path / "out").summary["history"]
    assert len(measured["values"]) == 2
    assert measured["mean"] == pytest.approx(sum(measured["values"]) / 2)


def test_limits_beyond_the_models_positions_are_refused_before_any_work(
    small_recipe, train, tmp_path
):
    with pytest.raises(InputError, match="allow 128 tokens, .* has 64 positions"):
        train(small_recipe(model={"total_limit": 128}), tmp_path / "out")
    assert not (tmp_path / "out" / "stores").exists()


def test_an_unknown_measure_is_refused_before_any_work(small_recipe, train, tmp_path):
    with pytest.raises(InputError, match="ndcg"):
        train(small_recipe(validate={"measure": "ndcg"}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lower_grades_beside_multi_label_margin_are_refused(small_recipe):
    model = {"preset": "repbert", "query_limit": 20, "passage_limit": 40, "total_limit": None}
    path = small_recipe(model=model, loss={"name": "multi-label-margin"})
    text = path.read_text()
    path.write_text(text.replace("    negatives:", "    min_grade: 2\n    negatives:"))
    with pytest.raises(InputError, match="min_grade: expected 1 with multi-label-margin, found 2"):
        load_training(path)


def test_a_guard_that_would_leave_out_nothing_is_refused(
    small_recipe, train, small_files, tmp_path
):
    qrels = tmp_path / "judged.txt"
    lines = (small_files / "qrels.test.txt").read_text().splitlines()
    rows = (line.split() for line in lines)
    qrels.write_text("".join(f"{q} 0 elsewhere-{p} {grade}\n" for q, _, p, grade in rows))
    test = {
        "queries": str(small_files / "queries.test.tsv"),
        "qrels": str(qrels),
        "collection": "docs",
        "leave_out_passages": True,
    }
    path = small_recipe(guard={"test": test})
    with pytest.raises(
        InputError, match="leave_out_passages: none of .* is in the collection docs"
    ):
        train(path, tmp_path / "out")


def test_what_a_workspace_of_score_kept_below_its_candidates_teaches_nothing(
    small_recipe, train, small_files, tiny_model, tiny_mono, tmp_path
):
    from raypipe.config import load_recipe
    from raypipe.driver.pipeline import Options, run_pipeline

    path = small_recipe(loss={"name": "margin-mse"})
    run = tmp_path / "train.trec"
    judged = [x.split() for x in (small_files / "qrels.train.txt").read_text().splitlines()]
    lines = run.read_text().splitlines()
    place = {}
    for number, (query, _, passage, _) in enumerate(judged):  # at rank 5 or 20 of its query
        place.setdefault((query, (5, 20)[number % 2]), passage)
    rows = [line.split() for line in lines]
    moved = set((query, passage) for (query, _), passage in place.items())
    rows = [row for row in rows if (row[0], row[2]) not in moved or (row[0], int(row[3])) in place]
    told = ((q, place.get((q, int(rank)), p), rank, score) for q, _, p, rank, score, _ in rows)
    run.write_text("".join(f"{q} Q0 {p} {rank} {score} made\n" for q, p, rank, score in told))
    body = {
        "format": 1,
        "name": "teaching",
        "collection": {"format": "msmarco-v1", "input": str(small_files / "passages.tsv")},
        "queries": {"train": {"file": str(small_files / "queries.train.tsv")}},
        "models": {"mono": {"path": str(tiny_mono)}},
        "stages": {
            "first": {"do": "read", "runs": {"train": str(run)}},
            "taught": {"do": "score", "run": "first", "model": "mono", "k0": 12},
        },
        "resources": {"backend": "inline", "device": "cpu"},
    }
    watcher = type("Silent", (), dict.fromkeys(("began", "advanced", "ended"), lambda *_: None))()
    run_pipeline(
        load_recipe(body, source="teaching"), tmp_path / "teacher", Options(), watcher=watcher
    )
    text = path.read_text()
    path.write_text(
        text.replace("    negatives:", f"    teacher: {tmp_path / 'teacher'}\n    negatives:")
    )
    trained = train(path, tmp_path / "out")
    scored = {
        (q, p): float(score)
        for q, _, p, rank, score, _ in map(
            str.split, (tmp_path / "teacher/runs/train/taught.trec").read_text().splitlines()
        )
        if int(rank) <= 12
    }
    judged = {(query, passage) for query, _, passage, _ in judged}
    facts = trained.summary["examples"]["docs"]
    # Of 30 candidates each 12 were scored: relevant passages among those are learnt, no others.
    assert facts["short"]["without_teacher"] == len(judged - scored.keys())
    assert facts["examples"] == len(judged & scored.keys()) > 0
    with pytest.raises(InputError, match="expected a workspace of `raypipe score`"):
        train(
            small_recipe(loss={"name": "kl"}, train={"docs": {**yaml_of(path), "teacher": "/"}}),
            tmp_path / "other",
        )


def yaml_of(path):
    import yaml

    return yaml.safe_load(path.read_text())["train"]["docs"]


def test_batches_of_a_step_are_one_larger_batch(small_recipe, train, weights, tmp_path):
    settings = {"dropout": 0.0, "steps": 5, "validate": None, "dev": {"docs": None}}
    train(small_recipe("one", batch=8, **settings), tmp_path / "one")
    train(small_recipe("two", batch=4, accumulation=2, **settings), tmp_path / "two")

    def losses(out):
        lines = (out / "train" / "progress.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, tensor in one.items():
        assert (two[name] - tensor).abs().max() < 1e-4, name


def test_the_recipes_precision_and_recomputing_reach_the_model(
    small_recipe, train, weights, tmp_path
):
    settings = {"dropout": 0.0, "steps": 4, "validate": None, "dev": {"docs": None}}
    resources = {"backend": "inline", "threads": 1}
    exact = train(small_recipe("exact", **settings), tmp_path / "exact")
    half = train(
        small_recipe("half", **settings, resources={**resources, "precision": "bf16"}),
        tmp_path / "half",
    )
    assert exact.summary["numerics"].endswith("fp32")
    assert half.summary["numerics"].endswith("bf16")
    name = "bert.encoder.layer.0.output.dense.weight"
    difference = (weights(tmp_path / "exact")[name] - weights(tmp_path / "half")[name]).abs().max()
    assert 0 < difference < 1e-2


def test_console_jsonl_and_tensorboard_tell_a_trainings_curves(small_recipe, train, tmp_path):
    said = []
    train(small_recipe(), tmp_path / "out", said=said)
    steps = [line for line in said if line.startswith("train: step ")]
    assert any(
        all(word in line for word in ("loss ", "rate ", "gradient ", "tokens/s")) for line in steps
    )
    assert sum("nDCG@10 docs " in line for line in steps) == 3
    (file,) = (tmp_path / "out" / "train" / "tensorboard").iterdir()
    curves = scalars(file.read_bytes())
    names = {"loss", "rate", "gradient_norm", "tokens", "seconds", "tokens_per_second"}
    assert curves.keys() == {f"train/{n}" for n in names} | {"nDCG_10/docs"}
    assert curves["train/loss"] == list(range(1, 13))
    assert curves["nDCG_10/docs"] == [4, 8, 12]


def scalars(data):
    """The steps of each scalar in an event file: records of length, 4 bytes, event, 4 bytes."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    while data:
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
        data = data[12 + length + 4 :]
    return found


def test_a_dev_set_of_fewer_queries_is_that_of_the_first(
    small_recipe, train, small_files, tmp_path
):
    def measured(name, queries, **limits):
        path = small_recipe(name, steps=4)
        text = path.read_text().replace(str(small_files / "queries.dev.tsv"), str(queries))
        path.write_text(
            text.replace(
                "    k: 10\n", "    k: 10\n" + "".join(f"    {k}: {v}\n" for k, v in limits.items())
            )
        )
        return train(path, tmp_path / name).summary["history"][0]["mean"]

    lines = (small_files / "queries.dev.tsv").read_text().splitlines(keepends=True)
    judged = {x.split()[0] for x in (small_files / "qrels.dev.txt").read_text().splitlines()}
    first = [line for line in lines if line.split("\t")[0] in judged][:3]
    (tmp_path / "first.tsv").write_text("".join(first))
    run = (tmp_path / "dev.trec").read_text().splitlines(keepends=True)
    fewer = measured("fewer", small_files / "queries.dev.tsv", queries_at_most=3)
    asked = {line.split("\t")[0] for line in first}
    kept = "".join(line for line in run if line.split()[0] in asked)
    (tmp_path / "dev.trec").write_text(kept)
    assert fewer == measured("first", tmp_path / "first.tsv")
