"""What is left of Python's path, for this process and its children, once it has left its folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from canaries import environment

from raypipe.isolation import child_environment, python_command
from raypipe.package import FOLDER

LEAVES = """
import os, sys
sys.path.insert(0, sys.argv[1])
from raypipe.isolation import leave_folder
del sys.path[0]
leave_folder(*sys.argv[3:])
print(*[entry for entry in sys.path if entry.startswith(sys.argv[2])], sep=os.pathsep)
print(os.environ.get("PYTHONPATH"), os.environ["PYTHONSAFEPATH"])
"""


@pytest.mark.parametrize(
    ("given", "left", "stays"),
    [
        (None, [], []),
        ("", [], []),
        ("{top}/lib:", [], ["lib"]),
        (":{top}/lib", [], ["lib"]),
        ("{top}/lib:.:{top}/other", [], ["lib", "other"]),
        ("../here:{top}/lib/../lib", [], ["lib"]),
        ("{top}/here", [], ["here"]),
        ("{top}/here:{top}/lib", ["{top}/here"], ["lib"]),
        ("{top}/link:{top}/lib", ["{top}/here"], ["lib"]),
        ("{top}/working_dir_files/_ray_pkg_0a:{top}/lib", [], ["lib"]),
    ],
)
def test_an_absolute_path_of_the_users_stays_and_nothing_that_means_the_folder(
    tmp_path, given, left, stays
):
    top = tmp_path.resolve()
    for name in ("here", "lib", "other", "working_dir_files/_ray_pkg_0a"):
        (top / name).mkdir(parents=True)
    (top / "link").symlink_to(top / "here")
    variables = {} if given is None else {"PYTHONPATH": given.format(top=top)}
    done = subprocess.run(
        [sys.executable, "-c", LEAVES, FOLDER.parent, top, *[f.format(top=top) for f in left]],
        cwd=top / "here", env=environment(**variables), capture_output=True, text=True, check=True,
    )  # fmt: skip
    entries, variable = done.stdout.splitlines()
    assert [Path(entry).resolve() for entry in entries.split(os.pathsep) if entry] == [
        top / name for name in stays
    ]
    path, safe = variable.split()
    assert safe == "1"
    named = [] if path == "None" else path.split(os.pathsep)
    assert [Path(entry).resolve() for entry in named] == [top / name for name in stays]


def test_a_child_has_its_arguments_and_takes_nothing_from_beside_raypipe(tmp_path):
    """Where raypipe lies in a folder of somebody else's, which is the current one too."""
    (tmp_path / "json.py").write_text("raise SystemExit('of the folder')\n")
    (tmp_path / "raypipe").symlink_to(FOLDER)
    *command, place, module, argument = python_command("json.tool", "--help")
    done = subprocess.run(
        [*command, str(tmp_path), module, argument],
        cwd=tmp_path, env=child_environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout and place == str(FOLDER.parent)


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
def test_programs_and_libraries_are_not_looked_for_in_the_current_folder(monkeypatch, name):
    monkeypatch.setenv(name, ":/usr/bin:.:bin:/bin:")
    assert child_environment()[name] == "/usr/bin:/bin"
    monkeypatch.delenv(name)
    assert name not in child_environment()
