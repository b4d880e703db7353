"""The command `verify`: what it prints of a sound and of a damaged workspace."""

import json
import shutil

from raypipe.cli.main import run


def told(folder, capsys, *options):
    capsys.readouterr()
    code, _ = run(["verify", str(folder), *options])
    return code, capsys.readouterr().out


def test_what_is_damaged_is_told_in_lines_or_in_one_object(work, tmp_path, capsys):
    folder = shutil.copytree(work, tmp_path / "work")
    assert told(folder, capsys) == (0, "every file has the bytes that were written\n")
    assert told(folder, capsys, "--json") == (0, '{"damaged": []}\n')
    (folder / "runs" / "test" / "one.trec").write_text("")
    code, out = told(folder, capsys)
    line, remedy = out.splitlines()
    assert code == 3 and line.startswith("runs/test/one.trec: ") and remedy.startswith("  remedy: ")
    code, out = told(folder, capsys, "--json")
    (damage,) = json.loads(out)["damaged"]
    assert (code, f"{damage['name']}: {damage['problem']}") == (3, line)
    assert damage["remedy"] == remedy.removeprefix("  remedy: ")
