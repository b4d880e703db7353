"""The commands `analyse`, on a small finished pipeline."""

import json

from raypipe.cli.main import run


def test_each_prints_tables_or_one_object(work, capsys):
    capsys.readouterr()
    for verb, line in (
        ("depth", "| one         | -      | 1.0000 |"),
        ("fusion", "| one   | two  | 0.5000 |"),
        ("queries", "| q1    | a lease | 1        | 0.5000 | 1.0000 |"),
    ):
        assert run(["analyse", verb, str(work)])[0] == 0
        assert line in capsys.readouterr().out, verb
        assert run(["analyse", verb, str(work), "--json"])[0] == 0
        (section,) = json.loads(capsys.readouterr().out)["sections"]
        assert (section["name"], section["query_set"]) == (verb, "test")


def test_what_cannot_be_analysed_is_told(work, tmp_path, capsys):
    assert run(["analyse", "tradeoff", str(work)])[0] == 2
    assert "expected a duoBERT stage" in capsys.readouterr().err
    assert run(["analyse", "depth", str(work), "--queries", "dev"])[0] == 2
    assert "--queries dev: expected one of test" in capsys.readouterr().err
    assert run(["analyse", "depth", str(tmp_path)])[0] == 2
    assert run(["analyse", "depth", str(tmp_path / "nothing")])[0] == 2
