import os

from raypipe.driver.upkeep.gc import _is_left_over
from raypipe.storage.holder import process_label


def test_an_unfinished_file_belongs_to_a_process_or_to_a_store_at_work():
    living = {"store-1"}
    other = "process-1-1-00000000"  # of a place that cannot be seen from here
    gone = process_label().replace(f"process-{os.getpid()}-", "process-99999999-")
    for name, expected in (
        ("tmp/store-1/x", False), ("tmp/store-2/x", True), ("nonce/store-1/word", False),
        ("nonce/store-2/word", True), (f"tmp/{process_label()}/x", False), (f"tmp/{gone}/x", True),
        (f"tmp/{other}/x", False), ("nonce/process-x/word", True), ("tmp/x", False),
        ("blobs/store-2/x", False), ("refs/a/b", False),
    ):  # fmt: skip
        assert _is_left_over(name, living) is expected, name
