"""Input files in a bucket are read from verified copies."""

import pytest

from raypipe.data.files import ASIDE
from raypipe.errors import InputError, StorageError
from raypipe.storage import copies
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.copies import copied, forget_others, on_this_node


@pytest.fixture
def place(bucket_uri):
    found = BucketStorage(bucket_uri)
    for name in ("data/part-1.tsv", "data/part-2.tsv", "data/deep/part-3.tsv"):
        found.replace(name, name.encode())
    return found


def test_an_object_and_the_objects_directly_under_a_prefix_are_copied(place, tmp_path):
    one = copied(f"{place.uri}/data/part-1.tsv", tmp_path)
    assert [(c.name, c.read_bytes()) for c in one] == [("part-1.tsv", b"data/part-1.tsv")]
    assert list(one.values()) == [f"{place.uri}/data/part-1.tsv"]
    with pytest.raises(InputError, match="data/: deep/ is a prefix under it, which is not read"):
        copied(f"{place.uri}/data/", tmp_path)
    place.delete("data/deep/part-3.tsv")
    for left_out in ("_SUCCESS", ".part-3.tsv.crc", "_temporary/part-4.tsv", "qrels/test.tsv"):
        place.replace(f"data/{left_out}", b"")
    two = copied(f"{place.uri}/data/", tmp_path, ASIDE.match)
    assert [copy.name for copy in two] == ["part-1.tsv", "part-2.tsv"] and set(one) < set(two)
    place.replace("data/queries.tsv", b"")
    with pytest.raises(
        InputError, match="data: queries.tsv is under it, which seems to be no part"
    ):
        copied(f"{place.uri}/data", tmp_path, ASIDE.match)
    (queries,) = copied(f"{place.uri}/data/queries.tsv", tmp_path, ASIDE.match)
    assert queries.read_bytes() == b""


def test_a_copy_is_kept_until_the_object_or_the_copy_changes(place, bucket_server, tmp_path):
    def copy():
        bucket_server.forget()
        (found,) = copied(f"{place.uri}/data/part-1.tsv", tmp_path)
        return found, bucket_server.counts().get("GET", 0)

    first, asked = copy()
    assert asked == 1 and copy() == (first, 0)
    first.write_bytes(b"damaged")
    assert copy() == (first, 1) and first.read_bytes() == b"data/part-1.tsv"
    place.replace("data/part-1.tsv", b"changed")
    second, asked = copy()
    assert second != first and asked == 1 and second.read_bytes() == b"changed"
    forget_others(tmp_path, {second: ""})
    assert second.exists() and not first.exists()


@pytest.mark.fault(48, "other bytes twice in a row: refused; a tag that is no MD5: taken")
def test_bytes_that_arrive_damaged_twice_are_refused_and_a_tag_need_not_be_an_md5(
    place, bucket_server, tmp_path
):
    asked = []

    def other_each_time(request, body):
        asked.append(request)
        return bytes([len(asked)]) + body[1:]

    bucket_server.damage = other_each_time
    with pytest.raises(StorageError, match="part-1.tsv: its bytes arrived damaged"):
        copied(f"{place.uri}/data/part-1.tsv", tmp_path)
    assert len(asked) == 2
    bucket_server.damage = lambda request, body: b"!" + body[1:]  # as its own tag is not of these
    (copy,) = copied(f"{place.uri}/data/part-1.tsv", tmp_path)
    assert copy.read_bytes() == b"!ata/part-1.tsv"


def test_an_object_that_is_written_while_it_is_fetched_is_refused(place, tmp_path, monkeypatch):
    fetch = copies._fetch

    def beside(filesystem, key, target):
        fetch(filesystem, key, target)
        place.replace("data/part-1.tsv", b"another")

    monkeypatch.setattr(copies, "_fetch", beside)
    with pytest.raises(InputError, match="part-1.tsv: it was written while it was fetched"):
        copied(f"{place.uri}/data/part-1.tsv", tmp_path)


@pytest.mark.parametrize(
    ("name", "told"), [("nothing.tsv", "no such object"), ("", "only deeper ones")]
)
def test_what_is_not_there_is_told(place, tmp_path, name, told):
    place.delete("data/part-1.tsv")
    place.delete("data/part-2.tsv")
    with pytest.raises(InputError, match=told):
        copied(f"{place.uri}/data/{name}".rstrip("/"), tmp_path)


def test_a_node_without_the_copy_fetches_its_own_once(place, bucket_server, tmp_path):
    uri, missing = f"{place.uri}/data/part-1.tsv", tmp_path / "elsewhere" / "part-1.tsv"
    own = on_this_node(missing, {str(missing): uri}, tmp_path)
    assert own.name == "part-1.tsv" and own.read_bytes() == b"data/part-1.tsv"
    bucket_server.forget()
    assert on_this_node(missing, {str(missing): uri}, tmp_path) == own
    assert on_this_node(missing, {}, tmp_path) == missing
    assert on_this_node(own, {str(own): uri}, tmp_path) == own
    assert bucket_server.counts() == {}
