import pytest

from raypipe.driver.invocation import invocation
from raypipe.driver.workspace import Workspace, read_refs
from raypipe.errors import LimitError, RefusedError
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.root import ROOT_FORMAT
from raypipe.storage.spec import StageSpec


def test_a_workspace_keeps_its_identity_marks_once_and_writes_no_ref_twice(tmp_path):
    workspace = Workspace(tmp_path / "deep" / "w", str(tmp_path / "s"))
    assert workspace.refs() == {} and not (tmp_path / "s" / ROOT_FORMAT).exists()
    workspace.mark()
    (tmp_path / "s" / ROOT_FORMAT).unlink()
    workspace.mark()
    assert not (tmp_path / "s" / ROOT_FORMAT).exists()
    workspace.refer("a", "1")
    file = tmp_path / "s" / "refs" / f"{workspace.id}.json"
    before = file.stat()
    workspace.refer("a", "1")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    workspace.refer("b", "2")
    workspace.refer("a", "3")
    assert Workspace(tmp_path / "deep" / "w", str(tmp_path / "s")).refs() == {"a": "3", "b": "2"}
    assert Workspace(tmp_path / "other").id != workspace.id
    names = [workspace.leave_nonce("a", "1") for _ in range(2)]
    assert names[0][0] == names[1][0] != workspace.leave_nonce("a", "2")[0]
    assert names[0][1] != names[1][1] and len(names[0][1]) == 32
    assert workspace.stores.read(names[0][0]) == names[1][1].encode()
    assert workspace.read_summary() is None
    workspace.write_summary({"a": 1})
    assert workspace.read_summary() == {"a": 1}


def test_a_summary_says_running_and_then_how_it_ended(tmp_path):
    workspace = Workspace(tmp_path / "w")

    def held():
        return workspace.read_summary()

    with invocation(workspace, "mine") as summary:
        during = held()
        assert (during["status"], during["exit"], during["recipe"]) == ("running", None, "mine")
        assert during["reason"] is None and len(during["run"]) == 12 and during["format"] == 3
        with pytest.raises(RefusedError), invocation(workspace, "other"):
            pass
        summary["systems"] = {"a": 1}
    assert held() == summary
    assert (held()["status"], held()["exit"], held()["systems"]) == ("complete", 0, {"a": 1})
    assert 0 <= held()["seconds"] < 60
    bug = "a bug in raypipe: KeyError('too')"
    for error, code, reason in ((LimitError("too\nmany"), 5, "too"), (KeyError("too"), 1, bug)):
        with pytest.raises(type(error)), invocation(workspace, "mine"):
            raise error
        assert (held()["status"], held()["exit"]) == ("failed", code)
        assert held()["reason"] == reason and "seconds" not in held()


def older_than(workspace, store, fingerprint):
    return read_refs(workspace.stores, workspace.id).older(store, fingerprint)


def store(workspace, number, *, name="a", complete=True):
    """The fingerprint of a store of one shard."""
    spec = StageSpec("toy", 1, {"number": number})
    ledger = Ledger(workspace.stores, name, spec, [Shard(0, 0, 2)])
    if complete:
        path = ledger.storage.scratch() / "payload"
        path.write_bytes(b"rows %d" % number)
        ledger.commit(Shard(0, 0, 2), path, {"rows": 2})
        ledger.publish()
    return spec.fingerprint()


def refer(workspace, store, fingerprint):
    """What a new invocation of the workspace refers to."""
    Workspace(workspace.folder).refer(store, fingerprint)


def test_a_complete_store_that_is_replaced_is_kept_as_a_source_until_it_is_forgotten(tmp_path):
    workspace = Workspace(tmp_path / "w")
    one, two, three = (store(workspace, n) for n in range(3))
    refer(workspace, "a", one)
    assert workspace.sources() == {} and older_than(workspace, "a", two) == [one]
    refer(workspace, "a", two)
    refer(workspace, "a", two)
    assert (workspace.refs(), workspace.sources()) == ({"a": two}, {"a": one})
    assert older_than(workspace, "a", three) == [two, one] and read_refs(
        workspace.stores, workspace.id
    ).older("a", two) == [one]
    assert older_than(workspace, "a", one) == [two] and older_than(workspace, "b", one) == []
    refer(workspace, "a", three)
    assert workspace.sources() == {"a": two}
    other = store(workspace, 9, name="b")
    refer(workspace, "b", other)
    refer(workspace, "b", store(workspace, 8, name="b"))
    assert workspace.sources() == {"a": two, "b": other}
    assert Workspace(tmp_path / "w").sources() == workspace.sources()
    workspace.forget_sources()
    assert workspace.sources() == {} and workspace.refs()["a"] == three


def test_a_store_that_was_never_completed_is_no_source(tmp_path):
    workspace = Workspace(tmp_path / "w")
    one, unfinished = store(workspace, 1), store(workspace, 2, complete=False)
    for fingerprint in (one, unfinished, store(workspace, 3)):
        refer(workspace, "a", fingerprint)
    assert workspace.sources() == {"a": one}  # that of before the unfinished one


def test_a_store_that_was_returned_to_is_not_older_than_itself(tmp_path):
    workspace = Workspace(tmp_path / "w")
    one, two = store(workspace, 1), store(workspace, 2)
    for fingerprint in (one, two, one):
        refer(workspace, "a", fingerprint)
    assert (workspace.refs(), workspace.sources()) == ({"a": one}, {"a": two})
    refer(workspace, "a", two)
    assert older_than(workspace, "a", two) == [one]


def test_nothing_is_written_where_nothing_is_to_forget(tmp_path):
    workspace = Workspace(tmp_path / "w")
    workspace.forget_sources()
    assert not list((workspace.folder / "stores").glob("refs/*"))


def test_two_stores_of_one_name_that_one_invocation_uses_are_both_kept(tmp_path):
    workspace = Workspace(tmp_path / "work")
    for _ in range(2):  # the second time as the first
        workspace.used.clear()
        for fingerprint in ("a" * 32, "b" * 32):
            workspace.refer("scores", fingerprint)
        workspace.forget_sources()
        kept = read_refs(workspace.stores, workspace.id)
        assert kept.places() == {f"scores/{'a' * 32}", f"scores/{'b' * 32}"}
    workspace.used.clear()
    workspace.refer("scores", "b" * 32)
    workspace.forget_sources()
    assert read_refs(workspace.stores, workspace.id).places() == {f"scores/{'b' * 32}"}
