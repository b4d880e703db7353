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


def test_pages_that_the_code_names_are_there():
    folders = ("raypipe", "jobs", "tests", "docs")
    found = [each for name in folders for each in (ROOT / name).rglob("*.*")]
    files = [each for each in found if each.suffix in (".py", ".yaml", ".json", ".toml", ".sh")]
    for file in [*files, ROOT / "cluster.yaml", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]:
        for path in re.findall(r"(?<![\w/])docs/[\w/]+\.md", file.read_text()):
            assert (ROOT / path).exists(), f"{file.relative_to(ROOT)}: {path}"


def headings(page):
    """The names by which links reach a page's headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in found}


def test_links_between_the_documents_lead_to_a_file_and_a_heading():
    for page in PAGES:
        for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
            if "://" in target:
                continue
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(path), f"{page.name}: {target}#{heading}"
