"""Memory that a process gives back before it waits."""

import gc
import subprocess
import sys

import pytest

from raypipe.engines.lucene.java import start_jvm
from raypipe.models.machine.memory import give_memory_back


@pytest.mark.slow
def test_a_process_that_waits_gives_its_memory_back():
    """100 MB of Arrow's and 100 MB of small pieces; measured in a process of its own."""
    code = (
        "import psutil, pyarrow as pa, pyarrow.compute as pc\n"
        "from raypipe.models.machine.memory import give_memory_back\n"
        "own = lambda: psutil.Process().memory_info().rss >> 20\n"
        "before = own()\n"
        "arrays = [pc.add(pa.array(range(1 << 16)), 1)]\n"
        "arrays += [pc.add(arrays[0], number) for number in range(199)]\n"
        "pieces = [bytes(1000) for _ in range(10**5)]\n"
        "last = bytes(1000)\n"  # it stays, above the pieces in C's heap
        "full = own()\n"
        "del arrays, pieces\n"
        "give_memory_back()\n"
        "print(full - before, own() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    full, left = map(int, done.stdout.split())
    assert full > 150 and left < full / 3, (full, left)


def test_cycles_are_found_nothing_is_looked_at_twice_or_imported_to_be_emptied():
    code = (
        "import gc, sys, weakref\n"
        "from raypipe.models.machine.memory import give_memory_back\n"
        "before = {*sys.modules}\n"
        "class Ring: pass\n"
        "for _ in range(2):\n"
        "    ring = Ring(); ring.own = ring; left = weakref.ref(ring)\n"
        "    kept = [[] for _ in range(999)]\n"
        "    del ring\n"
        "    give_memory_back()\n"
        "    print(left() is None, len(gc.get_objects()) < 999)\n"
        "print(sorted({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True True\n" * 2 + "[]\n", done.stderr


@pytest.mark.jvm
def test_what_java_no_longer_uses_is_gone():
    autoclass, _ = start_jvm()
    made = autoclass("java.lang.Object")()
    left = autoclass("java.lang.ref.WeakReference")(made)
    del made
    try:
        give_memory_back()
    finally:
        gc.unfreeze()
    assert left.get() is None
