"""LongEval's hand-in by the command line, and by the check of its organisers."""

import gzip
import json

import pytest
import yaml
from growing import SNAPSHOTS, write_growing

from raypipe.cli.main import run
from raypipe.leaderboard.longeval import MISSING, REQUIRED, metadata_problems

OWN = {
    "actor": {"team": "zebras"},
    "research goal": {"description": "dense retrieval that is not computed twice"},
    "implementation": {"source": {"repository": "https://example.org/zebras"}},
}
"""Parts of the metadata that only a user knows, beside the training data of a model made here."""


def leaderboard(command, *words):
    return run(["leaderboard", command, *map(str, words), "--task", "longeval"])[0]


def lines(tag="mine", queries=3, depth=3, scores=None):
    """A TREC run of so many queries and lines each."""
    return "".join(
        f"q{query} Q0 p{rank} {rank} {(scores or range(depth, 0, -1))[rank - 1]} {tag}\n"
        for query in range(queries)
        for rank in range(1, depth + 1)
    )


def complete(**changes):
    """Metadata with every field that the organisers ask for, changed at dotted keys."""
    body = {}
    for key, kind in REQUIRED.items():
        *path, last = key.split(".")
        inner = body
        for word in path:
            inner = inner.setdefault(word, {})
        inner[last] = {str: "a text", list: ["raypipe"], bool: True}[kind]
    return {**body, **changes}


@pytest.fixture
def hand_in(tmp_path):
    """A folder with runs of two snapshots and complete metadata."""
    folder = tmp_path / "hand-in"
    for name in ("2024-11", "2025-01"):
        (folder / name).mkdir(parents=True)
        (folder / name / "run.txt.gz").write_bytes(gzip.compress(lines().encode()))
    (folder / "ir-metadata.yml").write_text(yaml.safe_dump(complete()))
    return folder


def test_a_hand_in_that_breaks_no_rule_is_packed_with_its_id_as_the_tag(hand_in, tmp_path, capsys):
    assert leaderboard("check", hand_in) == 0
    assert "2025-01\n" in capsys.readouterr().out
    words = ["--eval", hand_in, "--id", "zebras-1", "--out", tmp_path / "out"]
    assert leaderboard("pack", *words) == 0
    packed = tmp_path / "out/leaderboard/submissions/zebras-1"
    files = sorted(str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file())
    assert files == ["2024-11/run.txt.gz", "2025-01/run.txt.gz", "ir-metadata.yml"]
    run_lines = gzip.decompress((packed / files[0]).read_bytes()).decode().splitlines()
    assert run_lines[0] == "q0 Q0 p1 1 3 zebras-1" and len(run_lines) == 9
    assert yaml.safe_load((packed / "ir-metadata.yml").read_text()) == complete(tag="zebras-1")
    checked = json.loads((tmp_path / "out/leaderboard/check.json").read_text())
    assert checked["task"] == "longeval" and "2024-11" in checked["rules"]
    assert leaderboard("pack", *words) == 0  # the same once more
    (hand_in / "2024-11" / "run.txt.gz").write_bytes(gzip.compress(lines(depth=4).encode()))
    assert leaderboard("pack", *words) == 2
    assert "exists with other files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lines(queries=2), "size: expected 3 queries and 5 lines or more, found 2 and 6"),
        (lines(queries=4, depth=1), "size: expected 3 queries and 5 lines or more, found 4 and 4"),
        (lines(depth=1001), "depth: 3 queries have more than 1,000 rows"),
        (lines(scores=[1, 2, 3]), "scores: 6 lines"),
        (lines() + "q9 Q0 p1 1 1 other\n", "tag: expected one tag; found mine, other"),
        (lines() + "q9 Q0 p1 1 1\n", "expected"),
    ],
)
def test_a_run_that_the_organisers_refuse_is_refused_by_its_snapshot(hand_in, capsys, text, told):
    (hand_in / "2025-01" / "run.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert leaderboard("check", hand_in) == 2
    error = capsys.readouterr().err
    assert told in error and "2025-01" in error and "2024-11: " not in error


def test_equal_scores_are_taken_and_their_order_kept(hand_in, tmp_path):
    text = lines(scores=[2, 2, 1])
    (hand_in / "2025-01" / "run.txt.gz").write_bytes(gzip.compress(text.encode()))
    out = ["--id", "mine", "--out", tmp_path, "--break-ties", "rank"]
    assert leaderboard("pack", "--eval", hand_in, *out) == 0
    packed = tmp_path / "leaderboard/submissions/mine/2025-01/run.txt.gz"
    first = [line.split()[2] for line in gzip.decompress(packed.read_bytes()).decode().splitlines()]
    assert first[:3] == ["p1", "p2", "p3"]


def test_every_field_that_is_missing_is_named():
    assert metadata_problems(complete()) == []
    assert metadata_problems({}) == [f"{key} is missing" for key in REQUIRED]
    body = complete(actor={"team": MISSING}, tag=f"of {MISSING}", method={"automatic": "yes"})
    body["platform"]["software"]["libraries"] = "raypipe"
    body["data"]["training data"] = [{"name": "a text"}, {"name": ""}]
    problems = metadata_problems(body)
    assert problems[:2] == ["tag is missing", "actor.team is missing"]
    assert "platform.software.libraries: expected a list, found 'raypipe'" in problems
    assert "method.automatic: expected true or false, found 'yes'" in problems
    assert problems.count("data.training data.name is missing") == 1
    assert "method.retrieval.name is missing" in problems


def test_files_that_are_no_hand_in_are_named(hand_in, tmp_path, capsys):
    (hand_in / "ir-metadata.yml").write_text("- a list")
    (hand_in / "2024-11" / "run.txt").write_text(lines())
    for folder, told in [
        (hand_in, "expected one run, found run.txt.gz and run.txt"),
        (tmp_path / "nowhere", "expected a folder with SNAPSHOT/run.txt.gz, found no folder"),
        (hand_in / "2025-01", "expected a folder with SNAPSHOT/run.txt.gz, found none"),
    ]:
        assert leaderboard("check", folder) == 2
        assert told in capsys.readouterr().err
    (hand_in / "2024-11" / "run.txt").unlink()
    assert leaderboard("check", hand_in) == 2
    assert "expected keys such as actor and method" in capsys.readouterr().err
    (hand_in / "ir-metadata.yml").write_text("actor: [cut off")
    assert leaderboard("check", hand_in) == 2
    assert "ir-metadata.yml: expected YAML; while parsing" in capsys.readouterr().err
    (hand_in / "ir-metadata.yml").unlink()
    assert leaderboard("check", hand_in) == 2
    assert "ir-metadata.yml: not there; `raypipe leaderboard template" in capsys.readouterr().err
    assert leaderboard("check", hand_in, "--qrels", "x") == 2
    assert "--qrels: not for --task longeval" in capsys.readouterr().err
    assert leaderboard("template") == 2
    assert "expected the workspace with its snapshots" in capsys.readouterr().err
    assert leaderboard("template", tmp_path) == 2
    assert f"{tmp_path}: no snapshots; expected a workspace" in capsys.readouterr().err
    assert run(["leaderboard", "template", str(tmp_path), "--task", "trec-rag"])[0] == 2


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory, tiny_model):
    """The folder of a workspace over three snapshots."""
    folder = tmp_path_factory.mktemp("longeval")
    recipe = write_growing(folder, tiny_model)
    assert run(["reindex", str(recipe), "--out", str(folder / "work")])[0] == 0
    return folder


def test_a_draft_has_what_raypipe_knows_and_names_the_rest(snapshots, capsys):
    work = snapshots / "work"
    capsys.readouterr()
    assert leaderboard("template", work) == 0
    printed = capsys.readouterr().out
    body = yaml.safe_load(printed)
    assert (work / "snapshots/test/dense/ir-metadata.yml").read_text().endswith(printed)
    problems = metadata_problems(body)
    unknown = ("actor.team", "research goal.description", "implementation.source.repository")
    assert problems[:3] == [f"{key} is missing" for key in unknown]
    assert problems[3:] in ([], ["data.training data.name is missing"])
    assert body["tag"] == "dense" and body["data"]["test collection"]["name"] == "growing"
    (retrieval,) = body["method"]["retrieval"]
    assert retrieval["stages"][1] == "dense: do search, index vectors, depth 8"
    flags = ("lexical", "deep_neural_model", "sparse_neural_model", "single_stage_retrieval")
    assert [retrieval[flag] for flag in flags] == [False, True, False, True]
    costs = body["resources"]["snapshots"]
    assert [(each["name"], each["passages"]) for each in costs] == [
        ("lag-2", 20),
        ("lag-9", 22),
        ("lag-10", 24),
    ]
    assert costs[0]["rows copied"] == 0 < costs[2]["rows copied"]
    assert body["platform"]["software"]["libraries"][0].startswith("raypipe ")


def test_a_draft_that_a_user_edited_stays(snapshots, tmp_path_factory, capsys):
    path = snapshots / "work/snapshots/test/dense/ir-metadata.yml"
    draft = path.read_text()
    again = ["reindex", str(snapshots / "growing.yaml"), "--out", str(snapshots / "work")]
    path.write_text(draft.replace(f"team: {MISSING}", "team: zebras"))
    assert run(again)[0] == 0
    assert "you have edited it" in capsys.readouterr().err
    assert "team: zebras" in path.read_text()
    path.unlink()
    assert run(again)[0] == 0
    assert path.read_text() == draft
    assert run(again)[0] == 0 and "edited" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_organisers_check_says_ok_of_a_packed_hand_in_and_refuses_the_draft(
    snapshots, tmp_path
):
    from tira.check_format import _fmt, check_format

    work = snapshots / "work" / "snapshots" / "test" / "dense"
    lags = {"lags": [*SNAPSHOTS]}
    assert check_format(work, "LongEvalLags", lags)[0] == _fmt.ERROR
    body = yaml.safe_load((work / "ir-metadata.yml").read_text())
    body |= {**OWN, "data": {"training data": [{"name": "drawn at random"}]}}
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(body))
    words = ["--eval", work, "--id", "zebras-1", "--out", tmp_path]
    assert leaderboard("pack", *words, "--metadata", tmp_path / "mine.yml") == 0
    packed = tmp_path / "leaderboard" / "submissions" / "zebras-1"
    code, told = check_format(packed, "LongEvalLags", lags)
    assert code == _fmt.OK, told
    for key in REQUIRED:  # whatever raypipe asks for, the organisers ask for too
        inner = yaml.safe_load((packed / "ir-metadata.yml").read_text())
        whole, (*path, last) = inner, key.split(".")
        for word in path:
            inner = inner[word][0] if isinstance(inner[word], list) else inner[word]
        del inner[last]
        (packed / "ir-metadata.yml").write_text(yaml.safe_dump(whole))
        assert metadata_problems(whole) == [f"{key} is missing"]
        assert check_format(packed, "LongEvalLags", lags)[0] == _fmt.ERROR, key
        (packed / "ir-metadata.yml").write_text(yaml.safe_dump({**body, "tag": "zebras-1"}))
