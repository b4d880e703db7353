"""What a command and its children took."""

import sys

import pytest

from rehearsal.watched import anonymous_bytes, bytes_under, watch

CHILD = """
import subprocess, sys, time
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "child"], check=True)
    sys.exit(7)
held = bytearray(150 << 20)
for place in range(0, len(held), 4096):
    held[place] = 1
begun = time.process_time()
while time.process_time() - begun < 1.5:
    pass
"""


@pytest.mark.slow
def test_the_memory_and_time_of_a_child_count_and_the_exit_code_is_the_commands(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CHILD)
    found = watch([sys.executable, str(script)])
    assert found.exit_code == 7
    assert 150 << 20 <= found.peak_bytes < 400 << 20
    assert found.cpu_seconds > 0.5
    assert found.seconds > 1.0


def test_memory_is_that_of_the_process_and_none_is_read_as_zero():
    import os

    before = anonymous_bytes(os.getpid())
    held = bytearray(64 << 20)
    held[::4096] = b"\1" * len(held[::4096])
    assert anonymous_bytes(os.getpid()) - before >= 60 << 20


def test_disk_is_counted_in_blocks_of_every_file(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 10_000)
    (tmp_path / "two").write_bytes(b"x")
    sizes = [(tmp_path / name).stat().st_blocks * 512 for name in ("a/one", "two")]
    assert bytes_under(tmp_path) == sum(sizes) > 10_000
