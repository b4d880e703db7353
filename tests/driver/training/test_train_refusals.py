from pathlib import Path

import pytest
import yaml
from small_training import train as train_saying

from raypipe.config.load import load_training
from raypipe.errors import InputError


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


def test_limits_beyond_the_models_positions_are_refused_before_any_work(
    small_recipe, train, tmp_path
):
    with pytest.raises(InputError, match="allow 128 tokens, .* has 64 positions"):
        train(small_recipe(model={"total_limit": 128}), tmp_path / "out")
    assert not (tmp_path / "out" / "stores").exists()


def test_an_unknown_measure_is_refused_before_any_work(small_recipe, train, tmp_path):
    with pytest.raises(InputError, match="ndgc"):
        train(small_recipe(validate={"measure": "ndgc"}), tmp_path / "out")
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


@pytest.mark.slow
def test_what_a_workspace_of_score_kept_below_its_candidates_teaches_nothing(
    small_recipe, train, small_files, tiny_model, tiny_mono, tmp_path
):
    from raypipe.config.load import load_recipe
    from raypipe.driver.execute import Watcher
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
    watcher = Watcher()
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


def pairs_of(run, *columns):
    """A run's lines as a table with these columns."""
    names = {"query_id": 0, "passage_id": 2, "rank": 3}
    rows = [line.split() for line in run.read_text().splitlines()]
    lines = [",".join(columns), *(",".join(row[names[c]] for c in columns) for row in rows)]
    path = run.with_suffix(".csv")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def changed_set(path, group, **keys):
    """The recipe with keys of its set changed; None takes one away."""
    body = yaml.safe_load(path.read_text())
    merged = {**body[group]["docs"], **keys}
    body[group]["docs"] = {key: value for key, value in merged.items() if value is not None}
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.mark.parametrize(
    ("negatives", "text"),
    [
        ({"last": 20}, "train.docs.negatives.last: .*up to 30 for a query, of which 20 would"),
        ({"last": 30, "first": 2}, "train.docs.negatives.first: .*without ranks and scores"),
        ({"last": 30, "relevant_last": 9}, "negatives.relevant_last: .*without ranks and scores"),
    ],
)
def test_candidates_without_an_order_are_not_cut_by_ranks_that_they_lack(
    small_recipe, train, tmp_path, negatives, text
):
    path = small_recipe()
    run = pairs_of(tmp_path / "train.trec", "query_id", "passage_id")
    path = changed_set(path, "train", negatives={"runs": run, **negatives})
    with pytest.raises(InputError, match=text):
        train(path, tmp_path / "out")


def test_pairs_and_dev_sets_do_not_cut_them_either(small_recipe, train, tmp_path):
    path = small_recipe()
    run = pairs_of(tmp_path / "train.trec", "query_id", "passage_id")
    path = changed_set(path, "train", negatives=None, pairs={"runs": run, "last": 10})
    dev = pairs_of(tmp_path / "dev.trec", "query_id", "passage_id")
    path = changed_set(path, "dev", run=dev)
    with pytest.raises(InputError) as error:
        train(path, tmp_path / "out")
    pairs, candidates = error.value.problems
    assert pairs.startswith("train.docs.pairs.last: ") and "write 30 or more" in pairs
    assert candidates.startswith("dev.docs.k: ") and "of which 10 would" in candidates


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (("query_id", "passage_id"), "expected a score for each passage, found candidates without"),
        (("query_id", "passage_id", "rank"), "expected a teacher's scores, found 1 / rank in ever"),
    ],
)
def test_a_run_without_scores_is_no_teacher(small_recipe, train, tmp_path, columns, text):
    path = small_recipe(loss={"name": "margin-mse"})
    path = changed_set(path, "train", teacher=pairs_of(tmp_path / "train.trec", *columns))
    with pytest.raises(InputError, match=f"train.docs.teacher: .*train.csv: {text}"):
        train(path, tmp_path / "out")


def test_candidates_without_scores_are_not_blended_with(small_recipe, train, tmp_path):
    path = small_recipe(loss={"name": "listwise", "blend": 1.0})
    run = pairs_of(tmp_path / "train.trec", "query_id", "passage_id")
    path = changed_set(path, "train", blend={"runs": run})
    with pytest.raises(InputError, match="train.docs.blend.runs: .*expected a score for each"):
        train(path, tmp_path / "out")


@pytest.mark.slow
def test_queries_without_text_and_quotes_of_a_csv_writer_are_told(small_recipe, tmp_path):
    path, said = small_recipe(), []
    triples = tmp_path / "texts.tsv"
    triples.write_text('"a lease"\tone\ttwo\n"the shard"\tthree\ttwo\n')
    dev = tmp_path / "dev.tsv"
    body = yaml.safe_load(path.read_text())
    dev.write_text(Path(body["dev"]["docs"]["queries"]).read_text() + "none\t\n")
    body["dev"]["docs"]["queries"] = str(dev)
    body["train"] = {"own": {"texts": str(triples)}}
    path.write_text(yaml.safe_dump(body | {"steps": 1, "batch": 1, "validate": {"every": 1}}))
    train_saying(path, tmp_path / "out", "optimiser.warmup=0", "checkpoint_every=1", said=said)
    (quotes,) = [line for line in said if "the quotes around texts" in line]
    assert quotes.startswith("train: own: ") and quotes in (tmp_path / "out/table.md").read_text()
    assert [line for line in said if "queries have no text: none" in line][0].startswith("dev: ")


def test_judgements_of_nothing_are_refused_before_anything_is_drawn(
    small_recipe, train, small_files, tmp_path
):
    path = small_recipe()
    judged = [line.split() for line in (small_files / "qrels.train.txt").read_text().splitlines()]
    of_others, elsewhere = tmp_path / "others.txt", tmp_path / "elsewhere.txt"
    of_others.write_text("".join(f"x-{q} 0 {p} {grade}\n" for q, _, p, grade in judged))
    judged = [line.split() for line in (small_files / "qrels.dev.txt").read_text().splitlines()]
    elsewhere.write_text("".join(f"{q} 0 x-{p} {grade}\n" for q, _, p, grade in judged))
    path = changed_set(path, "train", qrels=str(of_others))
    path = changed_set(path, "dev", qrels=str(elsewhere))
    with pytest.raises(InputError) as error:
        train(path, tmp_path / "out")
    queries, passages = error.value.problems
    assert "train.docs: " in queries and "none of its queries is judged in" in queries
    assert passages.startswith(f"dev.docs: {elsewhere}: 0 of ")
    assert "judged passages are in the collection" in passages
    assert not list((tmp_path / "out").glob("stores/examples*"))
