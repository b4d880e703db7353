"""`raypipe model` as a command: what it prints and how it exits."""

import json

import checkpoints as made
import pytest
from safetensors.torch import load_file, save_file

from raypipe.cli.main import run


@pytest.fixture
def monobert(tmp_path):
    """Converted from dl4marco's variables."""
    folder = made.dl4marco(tmp_path / "tf", made.classifier())
    code, _ = run(
        ["model", "convert", str(folder), "--out", str(tmp_path / "m"), "--preset", "monobert"]
    )
    assert code == 0
    return tmp_path / "m"


def test_convert_prints_what_was_left_out(tmp_path, capsys):
    folder = made.dl4marco(tmp_path / "tf", made.classifier())
    options = ["--preset", "duobert", "--segment-row", "copy", "--out", str(tmp_path / "m")]
    assert run(["model", "convert", str(folder), *options])[0] == 0
    told = capsys.readouterr().out
    assert "left out       bert/pooler/dense/kernel/adam_m" in told
    assert "segment row 2  copy" in told
    options[-1] = str(tmp_path / "n")
    assert run(["model", "convert", str(folder), *options, "--json"])[0] == 0
    body = json.loads(capsys.readouterr().out)
    assert body["segment_row"] == {"row": 2, "from": "copy"}
    assert body["conventions"]["kind"] == "duo"


def test_show_tells_conventions_with_their_sources_and_the_tensors(monobert, capsys):
    code, _ = run(["model", "show", str(monobert), "--json"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, told["kind"], told["problems"]) == (0, "mono", [])
    assert told["conventions"]["relevant_label"] == 1
    assert told["sources"]["score"] == "raypipe.json"
    assert (told["unused"], told["missing"]) == ([], [])
    assert (told["weights"]["head_units"], told["weights"]["segment_rows"]) == (2, 2)
    assert told["made_by"]["preset"] == "monobert"
    by_hand = (37 + 512 + 2 + 2) * 32  # tables and their norm
    by_hand += 2 * (4 * (32 * 32 + 32) + 4 * 32 + (32 * 64 + 64) + (64 * 32 + 32))  # layers
    by_hand += 32 * 32 + 32 + 2 * 32 + 2  # pooler and head
    assert told["weights"]["parameters"] == by_hand
    assert run(["model", "show", str(monobert)])[0] == 0
    assert "score              log-probability  (raypipe.json)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("made_by", "told"),
    [
        ({"recipe": "r", "step": 1200, "steps": 5000}, "the training r, step 1,200 of 5,000"),
        (
            {"recipe": "r", "phase": "p", "step": 1, "steps": 2},
            "the training r, phase p, step 1 of 2",
        ),
        ({"command": "raypipe model convert x"}, "raypipe model convert x"),
        ({"by": "another tool"}, "none"),
    ],
)
def test_show_tells_what_made_a_model(monobert, capsys, made_by, told):
    path = monobert / "raypipe.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "made_by": made_by}))
    assert run(["model", "show", str(monobert)])[0] == 0
    assert f"made by            {told}\n" in capsys.readouterr().out


def test_a_mono_model_without_its_head_is_shown_and_exits_2(monobert, capsys):
    file = monobert / "model.safetensors"
    weights = load_file(file)
    kept = {n: t for n, t in weights.items() if not n.startswith("classifier")}
    save_file({**kept, "cls.predictions.bias": weights["classifier.bias"]}, file)
    code, _ = run(["model", "show", str(monobert)])
    told = capsys.readouterr()
    assert code == 2
    assert "missing            classifier.bias, classifier.weight" in told.out
    assert "unused             cls.predictions.bias" in told.out
    assert "no head that scores pairs" in told.err


def test_a_pickle_is_answered_with_the_command_that_converts_it(tmp_path, capsys):
    folder = made.repbert(tmp_path / "repbert", made.bert())
    code, _ = run(["model", "show", str(folder), "--preset", "repbert"])
    told = capsys.readouterr()
    assert code == 2 and f"raypipe model convert {folder} --out DIR" in told.err
    assert "pooling            mean  (preset repbert)" in told.out


def test_another_architecture_is_shown_and_refused(monobert, capsys):
    config = json.loads((monobert / "config.json").read_text())
    (monobert / "config.json").write_text(json.dumps({**config, "model_type": "bart"}))
    code, reason = run(["model", "show", str(monobert)])
    assert code == 2 and "the checkpoint lacks the tensor classification_head" in reason


def test_a_duos_table_of_two_rows_is_a_problem_until_the_third_is_named(monobert, capsys):
    code, reason = run(["model", "show", str(monobert), "--preset", "duobert"])
    assert code == 2 and "name the third by segment_row" in reason
    body = json.loads((monobert / "raypipe.json").read_text())
    duo = {"kind": "duo", "query_limit": 62, "passage_limit": 223, "score": "probability"}
    (monobert / "raypipe.json").write_text(json.dumps({**body, **duo, "segment_row": "zero"}))
    assert run(["model", "show", str(monobert)])[0] == 0


def test_what_is_no_folder_exits_2(tmp_path):
    assert run(["model", "show", str(tmp_path / "none")])[0] == 2
    assert run(["model", "convert", str(tmp_path / "none"), "--out", str(tmp_path / "o")])[0] == 2


def test_show_of_the_packaged_model_names_no_problem(capsys):
    assert run(["model", "show", "minilm", "-v"])[0] == 0
    told = capsys.readouterr().out.splitlines()
    assert any(line.startswith("weights sha256     53aa5117") for line in told)
    assert run(["model", "show", "minilm"])[0] == 0
    without = capsys.readouterr().out.splitlines()
    (saw,) = [line for line in without if line.startswith("start_weights_saw")]
    assert "MS MARCO, S2ORC and Simple Wikipedia among them" in saw and "not stated" not in saw
    assert {*without} < {*told} and "parameters         22,713,216" in without
