"""Kills of the plain loop at each call to a bucket; what it leaves is that of a calm job.

The job runs in a forked child whose n-th call to the bucket is its last: the process ends before
the call, or when it was carried out and before the answer is read. Then it runs again.
"""

import faulthandler
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

KILLED = 86
HANGS_SECONDS = 150
"""A child that is still there shows where it waits, and ends."""


def in_child(uri, at, before):
    """The exit code of the job in a child that ends at this call; 0: it is not killed."""
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
        try:
            from test_inline_kills import SHARDS, SPEC, ToyStage

            from raypipe.cluster.backend import Task
            from raypipe.cluster.loop import Loop
            from raypipe.cluster.report import Limits
            from raypipe.cluster.worker import InlineBackend
            from raypipe.storage import bucket, copies
            from raypipe.storage import lease as leases
            from raypipe.storage.ledger import Ledger

            count = [0]

            class Armed(copies.CheckedFileSystem):
                def __getattr__(self, name):
                    method = super().__getattr__(name)

                    def call(*arguments, **settings):
                        count[0] += name != "invalidate_cache"
                        if count[0] == at and before:
                            os._exit(KILLED)
                        result = method(*arguments, **settings)
                        if count[0] == at:
                            os._exit(KILLED)
                        return result

                    return call

            copies.CheckedFileSystem = Armed
            leases.RENEW_SECONDS = 60.0  # a thread's calls would be counted too
            storage = bucket.BucketStorage(uri)
            lease = leases.acquire(storage, f"toy/{SPEC.fingerprint()}/lease.json")
            ledger = Ledger(storage, "toy", SPEC, SHARDS[:3])
            Loop(Task(ToyStage(), ledger), InlineBackend(), Limits()).run()
            ledger.publish()
            lease.release()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def durable(client, uri, folder):
    """What is stored below a folder of the bucket, without leases and logs, whose times differ."""
    name = uri.removeprefix("s3://")
    listed = client.list_objects_v2(Bucket=name, Prefix=f"{folder}/").get("Contents", ())
    keys = [o["Key"] for o in listed if "lease.json" not in o["Key"] and ".lines/" not in o["Key"]]
    found = {key: client.get_object(Bucket=name, Key=key)["Body"].read() for key in keys}
    return {key.removeprefix(f"{folder}/"): data for key, data in found.items()}


def kill_and_compare(uri, step):
    import boto3
    import s3fs  # noqa: F401  (imported once, before the forks)
    import test_inline_kills  # noqa: F401

    client = boto3.client("s3")
    assert in_child(f"{uri}/calm", 0, True) == 0
    expected = durable(client, uri, "calm")
    assert len(expected) == 3 + 3 + 3  # records, blobs, and spec, plan, manifest
    at, kills, rng = 1, 0, random.Random(0)
    while True:
        hit = []
        for before in (True, False):
            folder = f"{at}-{before}"
            code = in_child(f"{uri}/{folder}", at, before)
            assert code in (0, KILLED), folder
            hit.append(code == KILLED)
            if code == KILLED:
                kills += 1
                again = in_child(f"{uri}/{folder}", rng.randint(1, 60), before)
                assert again in (0, KILLED), folder
                assert again == 0 or in_child(f"{uri}/{folder}", 0, True) == 0, folder
            assert durable(client, uri, folder) == expected, folder
        if not any(hit):
            break
        at += step
    assert at > 30
    print(f"{kills} kills at calls 1, {1 + step}, ... of fewer than {at}")


def run_it(uri, step):
    command = [sys.executable, __file__, uri, str(step)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


@pytest.mark.slow
@pytest.mark.fault(2, "killed at some of the calls to a bucket: what a calm job leaves")
def test_jobs_killed_at_some_calls_to_a_bucket_leave_what_a_calm_one_does(bucket_uri):
    run_it(bucket_uri, 30)


@pytest.mark.fault(2, "killed at every call to a bucket: what a calm job leaves")
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_jobs_killed_at_every_call_to_a_bucket_leave_what_a_calm_one_does(bucket_uri):
    run_it(bucket_uri, 1)


if __name__ == "__main__":
    kill_and_compare(sys.argv[1], int(sys.argv[2]))
