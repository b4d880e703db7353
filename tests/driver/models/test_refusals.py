"""What becomes of each way in which a hub refuses or fails: an error with its remedy."""

import errno

import pytest

from raypipe.cli.main import run
from raypipe.errors import InputError
from raypipe.models.hub import explained, newest_commit, snapshot_of

NAME = "acme/tiny-encoder"


@pytest.fixture
def commit(hub, tiny_model):
    return hub.push(NAME, tiny_model)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """The library waits between its retries."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "set HF_TOKEN to a token of an account that has accepted its terms"),
        (403, "set HF_TOKEN to a token of an account that has accepted its terms"),
        (404, "can be reached (HF_ENDPOINT names another), and run again later"),
        (429, "can be reached (HF_ENDPOINT names another), and run again later"),
        (500, "can be reached (HF_ENDPOINT names another), and run again later"),
    ],
)
def test_each_status_of_a_hub_has_its_remedy(hub, commit, status, remedy):
    hub.ill["config.json"] = status
    with pytest.raises(InputError) as caught:
        snapshot_of(f"hf://{NAME}@{commit}")
    assert remedy in str(caught.value) and f"{status}" in str(caught.value)
    hub.ill = {"": status}
    with pytest.raises(InputError) as caught:
        newest_commit(NAME, None)
    assert remedy in str(caught.value) and f"{status}" in str(caught.value)


def test_a_hub_that_dies_in_the_middle_of_the_weights_is_told_and_the_rest_is_fetched_later(
    hub, commit, tiny_model
):
    hub.ill["model.safetensors"] = "cut"
    with pytest.raises(InputError, match="without sending complete message body"):
        snapshot_of(f"hf://{NAME}@{commit}")
    hub.ill.clear()
    weights = snapshot_of(f"hf://{NAME}@{commit}") / "model.safetensors"
    assert weights.read_bytes() == (tiny_model / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["acme/tiny--encoder", "acme/tiny.git", "acme/" + "n" * 97])
def test_a_name_that_no_repository_can_have_is_told_before_a_hub_is_asked(hub, name):
    with pytest.raises(InputError) as caught:
        newest_commit(name, None)
    assert f"(for a folder, write ./{name})" in str(caught.value)
    assert hub.asked == []


def test_what_raypipe_itself_refuses_is_told_as_it_is(hub):
    with pytest.raises(InputError) as caught, explained(NAME, None):
        raise InputError("refused")
    assert caught.value.problems == ["refused"]


def test_a_disk_that_is_full_stays_an_error_of_the_disk(hub):
    with pytest.raises(OSError, match="No space left"), explained(NAME, None):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "refused by http://me:secret@mirror/x"),
        RuntimeError("http://me:secret@mirror/x gave nothing"),
    ],
)
def test_what_the_library_says_is_repeated_without_credentials(hub, error):
    with pytest.raises(InputError, match=r"It says: .*http://...@mirror/x") as caught:
        with explained(NAME, None):
            raise error
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "says",
    [
        {"sha": "../../../../../outside"},
        {"sha": "\x1b]0;x\x07"},
        {"sha": "main"},
        {"ETag": '"../../../../../outside"'},
        {"X-Linked-Etag": '"/ABSOLUTE/outside"'},
        {"X-Repo-Commit": "../../../../../outside"},
    ],
    ids=str,
)
def test_a_hub_that_answers_with_a_path_is_refused_and_nothing_is_written_outside_the_cache(
    hub, commit, says, tmp_path, capsys
):
    hub.says = {key: said.replace("/ABSOLUTE", str(tmp_path)) for key, said in says.items()}
    code, _ = run(["model", "show", NAME])
    told = capsys.readouterr().err
    assert code == 2 and "digits, found" in told and "Traceback" not in told
    assert "\x1b" not in told
    assert {path.name for path in tmp_path.iterdir()} <= {"library", "cache"}
    assert not list(tmp_path.rglob("outside*"))
