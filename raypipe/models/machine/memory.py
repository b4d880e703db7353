"""Gives memory back that a process no longer uses, before it waits or serves another stage.

It stands apart from Ray's processes, since it is tested on GPU machines that lack Ray.
"""

import ctypes
import gc
import sys


def give_memory_back() -> None:
    """Return to the system what this process no longer uses.

    Python, torch, Arrow, a JVM and C's malloc keep it: a process that waits would otherwise hold
    most of its last stage's peak. A library that was never imported is not imported here.
    """
    gc.collect()
    # What is left are libraries, half a million objects, which the next collection need not look
    # at again: 0.2 s of a core each time with torch, transformers and peft loaded.
    gc.freeze()
    torch, arrow, java = (sys.modules.get(name) for name in ("torch", "pyarrow", "jnius"))
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if java is not None:
        java.autoclass("java.lang.System").gc()
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
