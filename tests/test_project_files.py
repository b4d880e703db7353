"""Files beside the code say what pyproject.toml and the style tests say."""

import re
import shlex
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])


def test_the_citation_has_the_projects_version_and_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["cff-version"], citation["title"]) == ("1.2.0", project["name"])
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert all(each["authors"] and each["url"] for each in citation["references"])


def test_pre_commit_runs_the_style_checks_of_ci():
    """`python -m` of the environment that commits, on the same folders; no copy of a tool."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert not any(hook["pass_filenames"] for hook in hooks)
    folders = ["raypipe", "jobs", "tests"]
    assert sorted(shlex.split(hook["entry"]) for hook in hooks) == [
        ["python", "-m", "mypy", "raypipe"],
        ["python", "-m", "ruff", "check", *folders],
        ["python", "-m", "ruff", "format", "--check", *folders],
    ]


def test_files_that_the_documents_name_are_there():
    for page in PAGES:
        for path in re.findall(r"`((?:tests|raypipe|jobs|docs)/[\w./-]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_links_between_the_documents_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
