"""A bucket on a real server: racing writers, lost answers and what a service may say instead."""

import hashlib
import threading

import botocore.exceptions
import pytest

from raypipe.errors import StorageError
from raypipe.storage import bucket as bucket_module
from raypipe.storage.bucket import BucketStorage

CONFLICT = (409, "ConditionalRequestConflict")


def failing(method, key, *answers):
    """Gives these answers to the next requests of a method for a key; True: it is carried out."""
    left = list(answers)

    def fault(request):
        if request.method == method and request.key.endswith(key) and left:
            return left.pop(0)
        return None

    return fault


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(bucket_module, "CONFLICT_SECONDS", 0.001)


def race(num_writers, num_rounds, write):
    """Which writers' `write(writer, round)` gave True, by round."""
    gate, won = threading.Barrier(num_writers), [[] for _ in range(num_rounds)]

    def writer(number):
        for turn in range(num_rounds):
            gate.wait()
            if write(number, turn):
                won[turn].append(number)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(num_writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_the_server_lets_one_of_two_writers_create_a_key(bucket_server, bucket_uri):
    clients = [bucket_server.client() for _ in range(2)]
    name = bucket_uri.removeprefix("s3://")

    def write(number, turn):
        try:
            clients[number].put_object(
                Bucket=name, Key=str(turn), Body=b"%d" % number, IfNoneMatch="*"
            )
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "PreconditionFailed"
            return False
        return True

    won = race(2, 25, write)
    assert [len(writers) for writers in won] == [1] * 25
    for turn, (writer,) in enumerate(won):
        assert clients[0].get_object(Bucket=name, Key=str(turn))["Body"].read() == b"%d" % writer


@pytest.mark.fault(13, "3 writers race for 15 records of a bucket: one creates each")
def test_of_writers_that_race_one_creates_the_record(bucket_server, bucket_uri):
    places = [BucketStorage(bucket_uri) for _ in range(3)]
    won = race(3, 15, lambda number, turn: places[number].create(f"{turn}.json", b"%d" % number))
    assert [len(writers) for writers in won] == [1] * 15
    assert [places[0].read(f"{turn}.json") for turn in range(15)] == [b"%d" % w for (w,) in won]


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("answer", [(500, "InternalError"), CONFLICT])
def test_a_record_is_created_once_whatever_the_first_answer_was(
    bucket_server, bucket_uri, answer, carried_out
):
    storage = BucketStorage(bucket_uri)
    bucket_server.fault = failing("PUT", "a.json", (*answer, carried_out))
    assert storage.create("a.json", b"mine")
    assert storage.read("a.json") == b"mine"


@pytest.mark.parametrize("answer", [(500, "InternalError"), CONFLICT])
def test_a_record_of_another_writer_is_not_ones_own_whatever_was_answered(
    bucket_server, bucket_uri, answer
):
    storage = BucketStorage(bucket_uri)
    assert storage.create("a.json", b"theirs")
    bucket_server.fault = failing("PUT", "a.json", (*answer, False))
    assert not storage.create("a.json", b"mine")
    assert storage.read("a.json") == b"theirs"


def test_a_service_that_does_not_say_which_condition_failed_is_understood(
    bucket_server, bucket_uri
):
    storage = BucketStorage(bucket_uri)
    storage.create("a.json", b"theirs")
    bucket_server.fault = failing("PUT", "a.json", *[(412, "PreconditionFailed", False)] * 2)
    assert not storage.create("a.json", b"mine")
    storage.delete("a.json")  # since it was met
    assert not storage.create("a.json", b"mine") and not storage.exists("a.json")


def test_a_conflict_that_does_not_end_is_told(bucket_server, bucket_uri):
    bucket_server.fault = lambda request: (*CONFLICT, False) if request.method == "PUT" else None
    with pytest.raises(StorageError, match="ConditionalRequestConflict.*run the same command"):
        BucketStorage(bucket_uri).create("a.json", b"mine")
    assert bucket_server.counts() == {"PUT": bucket_module.CONFLICTS}


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_blob_whose_put_failed_at_first_is_whole(
    bucket_server, bucket_uri, tmp_path, carried_out
):
    data = b"payload"
    (tmp_path / "x").write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    bucket_server.fault = failing("PUT", sha256, (500, "InternalError", carried_out))
    storage = BucketStorage(bucket_uri)
    storage.put(sha256, tmp_path / "x")
    storage.check(sha256)


@pytest.mark.fault(9, "a bucket that only fails is storage that failed")
def test_a_server_that_only_fails_is_storage_that_failed(bucket_server, bucket_uri):
    bucket_server.fault = lambda request: (501, "NotImplemented", False)
    with pytest.raises(StorageError, match="once the bucket answers"):
        BucketStorage(bucket_uri).create("a.json", b"mine")


def test_each_operation_takes_this_many_requests(bucket_server, bucket_uri, tmp_path):
    storage = BucketStorage(bucket_uri)
    data = b"payload"
    sha256 = hashlib.sha256(data).hexdigest()
    (tmp_path / "x").write_bytes(data)
    log = "a/log.jsonl"
    acts = [
        (lambda: storage.create("a/1.json", b"x"), {"PUT": 1}),
        (lambda: storage.create("a/1.json", b"y"), {"PUT": 1, "GET": 1}),
        (lambda: storage.read("a/1.json"), {"GET": 1}),
        (lambda: storage.exists("a/1.json"), {"GET": 1}),
        (lambda: storage.exists("a/2.json"), {"GET": 1}),
        (lambda: [storage.append(log, b"%d" % n) for n in range(9)], {"PUT": 9}),
        (lambda: next(storage.newest(log)), {"LIST": 1, "GET": 1}),
        (lambda: list(storage.names("a")), {"LIST": 1}),
        (lambda: list(storage.entries()), {"LIST": 1}),
        (lambda: storage.entry("a/1.json"), {"HEAD": 1}),
        (lambda: storage.put(sha256, tmp_path / "x"), {"PUT": 1, "GET": 1, "HEAD": 1}),
        (lambda: storage.local(sha256), {"GET": 1}),
        (lambda: storage.local(sha256), {}),
        (lambda: storage.delete("a/1.json"), {"DELETE": 1}),
    ]
    found = []
    for act, _ in acts:
        bucket_server.forget()
        act()
        found.append(bucket_server.counts())
    assert found == [expected for _, expected in acts]
