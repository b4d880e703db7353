"""Boards that take runs today, a task of a user's own, and `local`, by the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from small_board import write

from raypipe.cli.main import run as command
from raypipe.leaderboard.boards import BOARDS

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"
SEGMENT, SHARD = "msmarco_v2.1_doc_29_677149#3_1637632", "shard_00459_61697"


def lines_of(*queries):
    """TREC lines of (query id, passage ids, scores)."""
    return "".join(
        f"{query} Q0 {passage} {rank} {score} mine\n"
        for query, passages, scores in queries
        for rank, (passage, score) in enumerate(zip(passages, scores, strict=True), 1)
    )


def checked(capsys, path, task, *more):
    """(exit code, rule -> its line) of `check`."""
    code = command(["leaderboard", "check", str(path), "--task", str(task), *map(str, more)])[0]
    lines = re.findall(r"^  (\S+) +(.*?): (.*)$", capsys.readouterr().out, re.MULTILINE)
    return code, {rule: f"{mark} {rule}: {detail}" for mark, rule, detail in lines}


def deep(pattern, count):
    return lines_of(("1", [pattern.format(n) for n in range(count)], range(count, 0, -1)))


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        # As the guidelines print them: depths differ, a topic has one row, a score is repeated.
        (lines_of(("rag2026-37", [SHARD, SHARD[:-1], "shard_00044_0"], (2, 2, 1))), None),
        (
            lines_of(("rag2026-37", [SHARD], [1]), ("rag2026-38", [SHARD, SHARD + "1"], [1, 0])),
            None,
        ),
        (lines_of(("2024-14", [SEGMENT], [0.5])), None),
        (deep("shard_00459_{}", 101), None),
        (deep("msmarco_v2.1_doc_29_1#{}_0", 100), None),
        (deep("msmarco_v2.1_doc_29_1#{}_0", 101), "depth"),
        (lines_of(("1", [SEGMENT, SHARD], [2, 1])), "passage ids"),
        (lines_of(("1", ["msmarco_v2.1_doc_29_677149"], [1])), "passage ids"),
        (lines_of(("1", [SEGMENT.replace(".", "_")], [1])), "passage ids"),
        (lines_of(("1", ["shard_0459_61697"], [1])), "passage ids"),
        (lines_of(("1", [SHARD, SHARD + "1"], [1, 2])), "scores"),
        (lines_of(("1", [SHARD], [1])) + f"2 Q0 {SHARD} 1 1 yours\n", "tag"),
    ],
)
def test_trec_rag_takes_what_its_guidelines_say(tmp_path, capsys, text, broken):
    code, told = checked(capsys, write(tmp_path / "run", text), "trec-rag")
    assert [rule for rule, line in told.items() if line.startswith("BROKEN")] == [broken] * bool(
        broken
    )
    assert code == (2 if broken else 0)


def test_trec_rag_measures_what_its_overviews_report(tmp_path, capsys):
    ranking = [f"shard_00001_{n}" for n in range(40)]
    run = write(tmp_path / "run", lines_of(("1", ranking, range(40, 0, -1))))
    qrels = write(tmp_path / "qrels", f"1 0 {ranking[24]} 1\n1 0 {ranking[39]} 1\n")
    told = command(["leaderboard", "check", str(run), "--task", "trec-rag", "--qrels", str(qrels)])
    assert told[0] == 0
    values = dict(re.findall(r"measure: (\S+): (\S+) over 1 queries", capsys.readouterr().out))
    check = ["leaderboard", "check", str(run), "--task", "trec-rag", f"--qrels={qrels}"]
    assert command([*check, f"--qrels={qrels}"])[0] == 2
    assert "--qrels: expected one file for trec-rag; found 2" in capsys.readouterr().err
    ideal = 1 + 1 / np.log2(3)
    expected = {"nDCG@20": 0, "nDCG@30": 1 / np.log2(26) / ideal, "R@100": 1}
    assert {n: float(v) for n, v in values.items()} == pytest.approx(expected)


def test_ids_of_two_collections_in_one_run_are_told_as_such(tmp_path, capsys):
    run = write(tmp_path / "run", lines_of(("1", [SHARD, SEGMENT, SHARD + "1"], [3, 2, 1])))
    _, told = checked(capsys, run, "trec-rag")
    assert told["passage ids"] == (
        "BROKEN passage ids: 1 ids are not of the form shard_[0-9]{5}_[0-9]+, as the others are; "
        f"first '{SEGMENT}'"
    )


def packed(tmp_path, run, task, *more):
    pack = ["leaderboard", "pack", "--eval", str(run), "--id", "mine", "--task", str(task)]
    code = command([*pack, "--out", str(tmp_path / "out"), *map(str, more)])[0]
    return code, tmp_path / "out" / "leaderboard" / "submissions" / "mine"


@pytest.mark.parametrize("task", ["trec-rag", "local"])
def test_a_packed_run_keeps_each_topics_depth_scores_and_the_order_that_break_ties_says(
    tmp_path, task
):
    first, second = "shard_00001_1", "shard_00001_2"
    run = write(tmp_path / "run", lines_of(("a", [first, second], [3, 3]), ("b", [second], [0.5])))
    for order, ties in (([second, first], "id"), ([first, second], "rank")):
        code, folder = packed(tmp_path / ties, run, task, "--break-ties", ties)
        assert code == 0 and (folder / "eval.trec").read_text() == (  # 3 and the float32 below it
            f"a Q0 {order[0]} 1 3 mine\na Q0 {order[1]} 2 2.99999976 mine\n"
            f"b Q0 {second} 1 0.5 mine\n"
        )


def test_local_reads_the_scores_and_the_tag_of_a_trec_file(tmp_path, capsys):
    good = lines_of(("q", ["a", "b", "c"], [3, 3, 1]))
    code, told = checked(capsys, write(tmp_path / "run", good), "local")
    assert (code, told["tag"]) == (0, "ok tag: mine")
    assert told["scores"] == (
        "ok scores: never rising with the rank; 1 lines score the same as the line above, which "
        "pack orders by id"
    )
    _, told = checked(capsys, tmp_path / "run", "local", "--break-ties", "rank")
    assert told["scores"].endswith("which pack keeps in the file's order")
    for change, rule in (((" 2 3 ", " 2 3.5 "), "scores"), (("1 mine", "1 yours"), "tag")):
        code, told = checked(capsys, write(tmp_path / "bad", good.replace(*change)), "local")
        assert code == 2 and told[rule].startswith("BROKEN")
    _, told = checked(capsys, write(tmp_path / "long", good.replace("mine", "my run")), "local")
    assert told["file format"].startswith("ok file format: trec, 3 lines, which trec_eval reads, ")
    assert told["file format"].endswith("found 'q Q0 a 1 3 my run'")
    _, told = checked(capsys, write(tmp_path / "three", "q\ta\t1.5\nq\tb\t0.5\n"), "local")
    assert told["scores"] == "- scores: only those of a TREC file can contradict its ranks"
    code, told = checked(capsys, write(tmp_path / "tsv", "q\ta\t1\nq\tb\t2\n"), "local")
    assert (code, told["tag"]) == (0, "- tag: the file has none")


@pytest.mark.parametrize("task", sorted(BOARDS.keys() - {"longeval"}))  # which takes a folder
def test_a_board_that_takes_no_runs_says_since_when(tmp_path, capsys, task):
    _, told = checked(capsys, write(tmp_path / "run", "1\t7\t1\n"), task)
    years = {"msmarco-passage": 2022, "msmarco-doc": 2022, "trec-dl": 2023, "trec-car": 2019}
    expected = f"- board: closed since {years[task]}: " if task in years else "ok board: "
    assert told["board"].startswith("- board: none" if task == "local" else expected)


@pytest.mark.parametrize("name", ["eval", "test"])
def test_a_query_set_of_any_name_is_counted_by_check_and_pack(tmp_path, capsys, name):
    run = write(tmp_path / "run", lines_of(("1", ["a"], [1]), ("2", ["a"], [1])))
    for size, code in ((2, 0), (3, 2)):
        task = write(tmp_path / f"own{size}.yaml", f"query_sets: {{{name}: {size}}}\n")
        _, told = checked(capsys, run, task)
        assert told["query set"].startswith("ok" if code == 0 else "BROKEN query set: expected 3")
        assert packed(tmp_path / str(size), run, task)[0] == code


@pytest.fixture
def browse(tmp_path):
    """830 queries of up to 1,100 rows with repeated scores, and two sets of judgements."""
    rng = np.random.default_rng(5)
    queries = [(str(q), rng.permutation(3000)[: 1100 if q < 3 else 12]) for q in range(830)]
    run = write(
        tmp_path / "run",
        lines_of(*((q, ids, np.linspace(9, 1, len(ids)).round(2)) for q, ids in queries)),
    )
    judged = {
        name: "".join(f"{q} Q0 {p} 1\n" for q, ids in queries for p in {*ids[::step], 4000})
        for name, step in (("evidence", 4), ("gold", 9))
    }
    return run, {name: write(tmp_path / name, text) for name, text in judged.items()}


def trec_eval(run, qrels, *measures):
    """trec_eval's means over the queries of the judgements (-c), read without raypipe."""
    of_run, of_qrels = {}, {}
    for line in run.read_text().splitlines():
        query, _, passage, _, score, _ = line.split()
        of_run.setdefault(query, {})[passage] = float(score)
    for line in qrels.read_text().splitlines():
        query, _, passage, grade = line.split()
        of_qrels.setdefault(query, {})[passage] = int(grade)
    values = pytrec_eval.RelevanceEvaluator(of_qrels, {*measures}).evaluate(of_run)
    return {m: sum(each[m] for each in values.values()) / len(of_qrels) for m in measures}


def test_browsecomp_plus_takes_the_eight_figures_of_trec_eval_as_its_board_names_them(
    tmp_path, browse, capsys
):
    run, judged = browse
    qrels = [f"--qrels={name}={path}" for name, path in judged.items()]
    asked = {"Retriever": "mine", "Link": "https://example.org", "Evaluation Date": "2026-11-28"}
    metadata = write(tmp_path / "metadata.json", json.dumps(asked))
    code, folder = packed(tmp_path, run, "browsecomp-plus", *qrels, f"--metadata={metadata}")
    assert code == 0, capsys.readouterr().err
    body = json.loads((folder / "browsecomp-plus.json").read_text())
    names = {
        "nDCG@10": "ndcg_cut_10",
        "Recall@5": "recall_5",
        "Recall@100": "recall_100",
        "Recall@1000": "recall_1000",
    }
    expected = {"Retriever": "mine"}
    for name, title in (("evidence", "Evidence"), ("gold", "Gold")):
        values = trec_eval(run, judged[name], *names.values())
        expected |= {f"{title} {own}": round(values[theirs], 4) for own, theirs in names.items()}
    expected |= {"Link": asked["Link"], "Evaluation Date": asked["Evaluation Date"]}
    assert list(body.items()) == list(expected.items())
    more = [*qrels, f"--metadata={metadata}"]
    assert packed(tmp_path, run, "browsecomp-plus", *more)[0] == 0, "the same files once more"
    write(metadata, json.dumps(asked | {"Link": "https://example.org/other"}))
    capsys.readouterr()
    assert packed(tmp_path, run, "browsecomp-plus", *more)[0] == 2
    assert "a submission of this id exists with other files" in capsys.readouterr().err
    assert json.loads((folder / "browsecomp-plus.json").read_text()) == body
    assert command(["leaderboard", "template", "--task", "browsecomp-plus"])[0] == 0
    assert json.loads(capsys.readouterr().out) == dict.fromkeys(asked, "")


def test_what_browsecomp_plus_lacks_is_told(tmp_path, browse, capsys):
    run, judged = browse

    def told(*more):
        code, folder = packed(tmp_path, run, "browsecomp-plus", *more)
        assert code == 2 and not folder.exists()
        return capsys.readouterr().err

    gold, evidence = (f"--qrels={name}={judged[name]}" for name in ("gold", "evidence"))
    lacking = told()
    assert "--metadata: missing; browsecomp-plus requires it" in lacking
    assert "--qrels: missing; browsecomp-plus requires it" in lacking
    for wrong in ([gold], [gold, gold], [gold, f"--qrels={judged['evidence']}"]):
        assert "--qrels: expected --qrels Evidence=FILE and --qrels Gold=FILE" in told(*wrong)
    day = write(tmp_path / "m", '{"Retriever": "", "Link": "x", "Evaluation Date": "28.11.2026"}')
    assert (
        "submission: metadata: Retriever is empty; Evaluation Date: expected a day as YYYY-MM-DD; "
        "found '28.11.2026'"
    ) in told(gold, evidence, f"--metadata={day}")
    assert "error: x: no such file" in told(evidence, "--qrels=gold=x", f"--metadata={day}")


def test_the_documentations_own_task_checks_and_packs(tmp_path, capsys):
    (text,) = re.findall(r"```yaml\n(# my-track.yaml\n.*?)```", DOCS.read_text(), re.S)
    task = write(tmp_path / "my-track.yaml", text.replace("eval: 119", "eval: 1"))
    run = write(tmp_path / "run", lines_of(("rag2027-4", [SHARD, SHARD + "0"], [1, 1])))
    qrels = write(tmp_path / "qrels", f"rag2027-4 0 {SHARD} 1\n")
    assert checked(capsys, run, task)[0] == 0
    assert command(["leaderboard", "template", "--task", str(task)])[0] == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"team": "", "note": "", "kind": "dense", "day": ""}
    facts |= {"team": "us", "day": "2027-08-01"}
    metadata = write(tmp_path / "m.json", json.dumps(facts))
    more = [f"--qrels={qrels}", f"--metadata={metadata}", "--break-ties=rank"]
    code, folder = packed(tmp_path, run, task, *more)
    assert code == 0, capsys.readouterr().err
    expected = {"team": "us", "note": "", "kind": "dense", "nDCG@10": 1.0, "day": "2027-08-01"}
    assert list(json.loads((folder / "facts.json").read_text()).items()) == list(expected.items())
    code, told = checked(capsys, write(tmp_path / "run", "rag2026-4 Q0 x 1 1 a\n"), task)
    assert code == 2 and "are not of the form rag2027-[0-9]+" in told["query ids"]
    assert "are not of the form shard_[0-9]{5}_[0-9]+ or web-[0-9]+" in told["passage ids"]
