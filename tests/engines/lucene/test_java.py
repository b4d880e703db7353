import subprocess
import sys

import pytest

from raypipe.engines.lucene.java import anserini_jar, find_java
from raypipe.errors import InputError


@pytest.fixture
def asked_again():
    """What was found once is looked for again, in a test and after it."""
    for found in (find_java, anserini_jar):
        found.cache_clear()
    yield
    for found in (find_java, anserini_jar):
        found.cache_clear()


def java_of(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("home", "path", "source", "version"),
    [
        ("21", "22.0.1", "JAVA_HOME", "21"),
        ("20.0.2", "21.0.2", "PATH", "21.0.2"),
        (None, "21.0.2", "PATH", "21.0.2"),
        ("1.8.0_292", "unknown", None, None),
    ],
)
def test_the_first_java_of_version_21_or_later_is_taken(
    tmp_path, monkeypatch, asked_again, home, path, source, version
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        java_of(tmp_path / "home", home)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(java_of(tmp_path / "path", path).parent))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # without the wheel
    if source is None:
        with pytest.raises(InputError, match="expected a Java 21 or later, found none; install"):
            find_java()
    else:
        place = {"JAVA_HOME": "home", "PATH": "path"}[source]
        found = find_java()
        assert (found.home, found.version) == (tmp_path / place, version)
        assert found.source == source


@pytest.mark.parametrize(
    ("name", "ok"),
    [
        ("anserini-1.7.1-fatjar.jar", True),
        ("anserini-2.3.0-fatjar.jar", True),
        ("anserini-3.0.0-fatjar.jar", False),
        ("anserini-0.40.0-fatjar.jar", False),
        ("other-fatjar.jar", False),
    ],
)
def test_an_anserini_that_was_not_tried_is_refused_with_what_to_install(
    tmp_path, monkeypatch, asked_again, name, ok
):
    jar = tmp_path / "pyserini" / "resources" / "jars" / name
    jar.parent.mkdir(parents=True)
    jar.touch()
    (tmp_path / "pyserini" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pyserini", raising=False)
    if ok:
        assert anserini_jar() == jar
    else:
        told = f"expected Anserini 1 or 2, .* found {name}; install 'pyserini>=1.6,<2.5'"
        with pytest.raises(InputError, match=told):
            anserini_jar()


def test_without_anserinis_jar_pyserini_is_named(tmp_path, monkeypatch, asked_again):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    told = "pyserini: its Anserini jar was not found; reinstall"
    with pytest.raises(InputError, match=told):
        anserini_jar()
    jars = tmp_path / "pyserini" / "resources" / "jars"
    jars.mkdir(parents=True)
    (tmp_path / "pyserini" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path)])
    sys.path_importer_cache.pop(str(tmp_path), None)
    (jars / "anserini-1.jar").touch()
    with pytest.raises(InputError, match=told):
        anserini_jar()
    for number in (2, 1):
        (jars / f"anserini-{number}-fatjar.jar").touch()
    assert anserini_jar() == jars / "anserini-2-fatjar.jar"


@pytest.mark.jvm
@pytest.mark.slow
def test_a_java_that_lucene_can_run_on_is_found():
    assert int(find_java().version.partition(".")[0]) >= 21


@pytest.mark.jvm
@pytest.mark.slow
def test_deeply_nested_text_is_refused_beside_a_running_java():
    """Java guards this thread's stack; Python 3.13 was ended there by a segmentation fault."""
    code = (
        "import json; from raypipe.engines.lucene.java import start_jvm; start_jvm()\n"
        "try: json.loads('[' * 100_000)\n"
        "except RecursionError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
