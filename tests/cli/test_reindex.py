"""Nights of re-indexing as a scheduler calls them: exit codes, lines and JSON."""

import json
from types import SimpleNamespace

import pytest
from recipes import dense, write_files

from raypipe.cli.main import run
from raypipe.errors import Interrupted
from raypipe.storage.ledger import Ledger


@pytest.fixture
def folder(tmp_path, tiny_model):
    (tmp_path / "my-recipe.yaml").write_text(dense(tmp_path, tiny_model, name="nightly"))
    write_files(tmp_path, ["the zebra", "a lease", "of shards", "run"])
    return tmp_path


@pytest.fixture
def raypipe_here(capsys):
    """A command in this process: its exit code and what it printed."""

    def call(*words):
        capsys.readouterr()
        code, _ = run([str(word) for word in words])
        told = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=told.out, stderr=told.err)

    return call


def write(folder, *texts):
    lines = [f"p{number}\t{text}\n" for number, text in enumerate(texts)]
    (folder / "passages.tsv").write_text("".join(lines))


@pytest.mark.slow
def test_nights_of_a_schedule(raypipe_here, folder):
    recipe, work = folder / "my-recipe.yaml", folder / "work"
    shown = ("--frozen", "--max-drift", "overlap@10=0.8", "--keep", "7")

    def reindex(*more):
        return raypipe_here("reindex", recipe, "--out", work, *more)

    first = reindex("--json")  # nothing to be frozen to yet
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["generation"]["number"] == 1
    again = reindex(*shown)
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == "generation 1 stays current: nothing changed"
    write(folder, "the zebra", "a lease", "of shards", "run", "a run of the lease")
    second = reindex("--frozen", "--keep", "7")
    assert "generation 2, " in second.stdout and "1 added, 0 removed, 0 changed" in second.stdout
    assert "tiny: word pieces: 5 rows in" in second.stderr and "4 of them copied" in second.stderr
    write(folder, "run", "a zebra of", "query", "rank", "passage")
    beyond = reindex(*shown)
    assert beyond.returncode == 5 and "overlap@10" in beyond.stderr
    status = raypipe_here("status", work)
    assert status.returncode == 5 and status.stdout.startswith("failed: exit 5")
    last = raypipe_here("history", work).stdout.splitlines()[-1]
    assert last.startswith("generation 3 (refused), ") and "; refused: dense on test" in last
    refused = json.loads((work / "summary.json").read_text())
    accepted = reindex("--accept", "--json")
    assert (json.loads(accepted.stdout)["number"], json.loads(accepted.stdout)["accepted"]) == (
        4,
        3,
    )
    summary = json.loads((work / "summary.json").read_text())
    assert (summary["exit"], summary["generation"]["number"]) == (0, 4)
    for told in ("systems", "measures", "stages", "device", "versions"):
        assert summary[told] == refused[told] and told in refused
    assert raypipe_here("status", work).returncode == 0
    assert reindex("--accept").returncode == 2
    back = raypipe_here("rollback", work)
    assert back.stdout.strip() == "generation 5 is current, with the content of 2"
    assert raypipe_here("rollback", work, "--to", "9").returncode == 2
    listed = raypipe_here("history", work).stdout.splitlines()
    assert [line.split(",")[0] for line in listed] == [
        "generation 1", "generation 2", "generation 3 (refused)", "generation 4", "generation 5"
    ]  # fmt: skip
    assert listed[3].endswith("built and refused as generation 3")
    told = json.loads(raypipe_here("history", work, "--json").stdout)["generations"]
    assert [(g["number"], g["passages"]) for g in told] == [(1, 4), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert ["refused" in g for g in told] == [False, False, True, False, False]
    queries, found = folder / "queries.tsv", folder / "found"
    (folder / "passages.tsv").unlink()
    search = ("search", "--index", work, "--queries", queries, "--depth", "3", "--out", found)
    read = raypipe_here(*search, "--generation", "1", "--json")
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout)["stages"]["passages@collection"]["rows"] == 4
    assert raypipe_here(*search, "--generation", "8").returncode == 2


def test_mended_judgements_make_a_generation_of_the_same_stores(raypipe_here, folder):
    recipe, work, qrels = folder / "judged.yaml", folder / "work", folder / "qrels.txt"
    text = (folder / "my-recipe.yaml").read_text()
    recipe.write_text(
        text.replace('queries.tsv"}', f'queries.tsv", "qrels": "{qrels}"}}')
        + "evaluate: {measures: [RR@10]}\n"
    )

    def reindex():
        done = raypipe_here("reindex", recipe, "--out", work)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    qrels.write_text("1 0 p3 1\n2 0 p1 1\n")
    reindex()
    assert reindex() == "generation 1 stays current: nothing changed"
    qrels.write_text("1 0 p0 1\n2 0 p1 1\n")
    assert "generation 2, " in reindex()
    assert reindex() == "generation 2 stays current: nothing changed"
    told = json.loads(raypipe_here("history", work, "--json").stdout)["generations"]
    before, now = (g["measures"]["test"]["dense"]["RR@10"] for g in told)
    assert before != now
    assert (told[1]["added"], told[1]["removed"], told[1]["changed"]) == (0, 0, 0)


def test_before_the_first_generation_history_is_empty_and_rollback_refused(raypipe_here, folder):
    work = folder / "work"
    done = raypipe_here("pipeline", folder / "my-recipe.yaml", "--out", work)
    assert done.returncode == 0, done.stderr
    assert "no generation yet" in raypipe_here("history", work).stdout
    assert raypipe_here("rollback", work).returncode == 2
    wrong = raypipe_here("reindex", folder / "my-recipe.yaml", "--out", work, "--max-drift", "x=1")
    assert wrong.returncode == 2 and "--max-drift 'x=1'" in wrong.stderr
    assert raypipe_here("reindex", folder / "my-recipe.yaml", "--keep", "1").returncode == 2


def test_what_was_refused_is_verified_before_and_after_it_is_accepted(raypipe_here, folder):
    recipe, work = folder / "my-recipe.yaml", folder / "work"
    run_file = work / "runs" / "test" / "dense.trec"

    def reindex(*more):
        return raypipe_here("reindex", recipe, "--out", work, *more).returncode

    def finds_damage():
        before = run_file.read_bytes()
        run_file.write_text("damaged")
        found = raypipe_here("verify", work)
        run_file.write_bytes(before)
        return found.returncode == 3 and "runs/test/dense.trec" in found.stdout

    assert reindex() == 0
    write(folder, "run", "a zebra of", "query", "rank", "passage")
    assert reindex("--max-drift", "overlap@10=1") == 5
    assert finds_damage()
    assert reindex("--accept") == 0
    assert finds_damage()
    assert "earlier" not in raypipe_here("status", work).stdout
    assert reindex("--accept") == 2  # nothing is left to accept, and nothing was written
    assert finds_damage()
    assert raypipe_here("verify", work).returncode == 0


def test_of_two_refused_nights_the_one_that_is_named_is_taken(raypipe_here, folder):
    recipe, work = folder / "my-recipe.yaml", folder / "work"

    def reindex(*more, before=()):
        return raypipe_here("reindex", *before, recipe, "--out", work, *more)

    def newest():
        found = json.loads(raypipe_here("status", work, "--json").stdout)["generation"]
        return found["number"], found["passages"]

    assert reindex().returncode == 0
    write(folder, "run", "a zebra of")
    assert reindex("--max-drift", "overlap@10=1").returncode == 5
    write(folder, "run", "query", "rank")
    second = reindex("--max-drift", "overlap@10=1")
    assert second.returncode == 5 and "--accept 3`" in second.stderr
    alone = reindex("--accept")
    assert alone.returncode == 2 and "2 generations were refused since" in alone.stderr
    assert "error:   2: 20" in alone.stderr and "error:   3: 20" in alone.stderr
    assert newest() == (1, 4)
    for number, why in (
        ("1", "it was not refused"),
        ("9", "no such"),
        ("x1", "expected the number"),
    ):
        wrong = reindex(f"--accept={number}")
        assert wrong.returncode == 2 and why in wrong.stderr
    taken = reindex(before=("--accept", "2"))
    assert taken.stdout == "generation 4 is current: what was built as generation 2\n"
    assert newest() == (4, 2)
    assert reindex("--accept", "3").returncode == 0 and newest() == (5, 3)
    write(folder, "run")
    assert reindex().stdout.startswith("generation 6, ")
    assert reindex(before=("--accept",)).returncode == 2, "nothing was refused since"
    listed = [line.split(",")[0] for line in raypipe_here("history", work).stdout.splitlines()]
    assert listed == [
        "generation 1", "generation 2 (refused)", "generation 3 (refused)", "generation 4",
        "generation 5", "generation 6",
    ]  # fmt: skip


def test_status_says_the_current_generation_whatever_ended_last(raypipe_here, folder):
    recipe, work = folder / "my-recipe.yaml", folder / "work"

    def status():
        done = raypipe_here("status", work, "--json")
        told = json.loads(done.stdout)
        assert done.returncode == told["exit_code"]
        assert told["generation"]["age_seconds"] >= 0 and told["age_seconds"] >= 0
        return told, told["generation"], [each["number"] for each in told["refused"]]

    def reindex(*more):
        return raypipe_here("reindex", recipe, "--out", work, *more).returncode

    assert raypipe_here("pipeline", recipe, "--out", work).returncode == 0
    told = json.loads(raypipe_here("status", work, "--json").stdout)
    assert (told["generation"], told["refused"], told["cause"]) == (None, [], None)
    assert reindex() == 0
    write(folder, "the zebra", "a lease", "run", "of shards")
    assert reindex() == 0
    told, current, refused = status()
    assert (told["cause"], current["number"], current["passages"], refused) == (None, 2, 4, [])
    assert set(current["drift"]["test"]["dense"]["means"]) == {"overlap@10", "overlap@100", "rbo"}
    write(folder, "run", "query")
    assert reindex("--max-drift", "overlap@10=1") == 5
    told, current, refused = status()
    assert (told["exit_code"], told["cause"], current["number"], refused) == (5, "limit", 2, [3])
    assert "overlap@10" in told["refused"][0]["refused"] and told["refused"][0]["drift"]["test"]
    text = raypipe_here("status", work).stdout
    assert text.startswith("failed: exit 5, generation 3 of nightly was built")
    assert "\n  current for 0:00:0" in text and ": generation 2, 20" in text
    assert "\n  refused for 0:00:0" in text and ": generation 3 (refused), 20" in text
    assert reindex("--frozen", "stages.dense.depth=2") == 4 and status()[0]["cause"] == "refused"
    assert reindex("--forzen") == 2 and status()[0]["cause"] == "input"
    assert raypipe_here("rollback", work).returncode == 0
    told, current, refused = status()
    assert (current["number"], current["rolled_back_to"], refused) == (4, 1, [])
    assert "the content of generation 1" in raypipe_here("status", work).stdout


def test_a_killed_night_that_is_resumed_has_copied_what_both_invocations_did(
    raypipe_here, folder, monkeypatch
):
    recipe, work = folder / "my-recipe.yaml", folder / "work"
    texts = [f"zebra {word} lease" for word in "the of run rank query shard".split()]
    write(folder, *texts)
    shards = "resources.shard_tokens=9"

    def rows_copied():
        (*_, last) = json.loads(raypipe_here("history", work, "--json").stdout)["generations"]
        return last["number"], last["rows_copied"]

    def reindex():
        return raypipe_here("reindex", recipe, "--out", work, shards).returncode

    assert reindex() == 0
    write(folder, *texts[:-1], "another")
    with monkeypatch.context() as patch:
        inner, done = Ledger.commit, []

        def killed(ledger, *given):
            if ledger.store == "vectors" and len(done) == 1:
                raise Interrupted("as by a signal", 143)
            done.extend([ledger.folder] if ledger.store == "vectors" else [])
            return inner(ledger, *given)

        patch.setattr(Ledger, "commit", killed)
        assert reindex() == 143 and len(done) == 1
    assert reindex() == 0
    assert rows_copied() == (2, 10)  # word pieces and vectors of the five texts that stayed


@pytest.mark.slow
def test_generations_that_another_workspace_retired_are_not_missed(
    raypipe_here, folder, monkeypatch
):
    monkeypatch.setattr("raypipe.driver.generations.retire.GRACE_SECONDS", 0)
    recipe, stores = folder / "my-recipe.yaml", f"stores={folder / 'stores'}"

    def reindex(work, *more):
        done = raypipe_here("reindex", recipe, stores, "--out", folder / work, *more)
        assert done.returncode == 0, done.stderr

    def missing():
        return raypipe_here("verify", folder / "one").stdout.count("no such file\n")

    for text in ("a", "b", "c"):
        write(folder, "the zebra", text)
        reindex("one")
    records = folder / "stores" / "generations" / "nightly"
    (records / "0000001.json").rename(folder / "kept")  # by hand, and nobody else is there
    assert missing() == 1
    (folder / "kept").rename(records / "0000001.json")
    write(folder, "the zebra", "d")
    reindex("other", "--keep", "2")
    assert {path.name for path in records.glob("*.json")} == {"0000003.json", "0000004.json"}
    assert missing() == 0
    (records / "0000004.json").unlink()
    assert "0000004.json: no such file" in raypipe_here("verify", folder / "other").stdout


def test_after_another_recipe_in_the_workspace_it_is_told_whose_generations_there_are(
    raypipe_here, folder
):
    recipe, work = folder / "my-recipe.yaml", folder / "work"
    assert raypipe_here("reindex", recipe, "--out", work).returncode == 0
    assert raypipe_here("pipeline", recipe, "--out", work, "name=other").returncode == 0
    told = "other: no generation of the recipe that ran last; these stores have some of nightly."
    assert told in raypipe_here("history", work).stdout
    assert told in raypipe_here("rollback", work).stderr
    assert raypipe_here("reindex", recipe, "--out", work).returncode == 0
    assert raypipe_here("history", work).stdout.startswith("generation 1, ")
