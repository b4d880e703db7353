"""Python imports this module when a worker of Ray starts that finds raypipe in no usual place.

Ray puts the working directory of a job before everything else on a worker's path. This module
stands before a `sitecustomize.py` there, takes the directory off the path, and takes raypipe alone
from the folder that RAYPIPE_FOLDER names. Then the machine's own module of this name has its turn.
"""

import os
import sys

_here = os.path.realpath(os.getcwd())
_own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in (_here, _own)]
_folder = [os.path.join(_here, folder) for folder in [os.environ.get("RAYPIPE_FOLDER")] if folder]
sys.path[:0] = _folder
from raypipe.isolation import leave_folder  # noqa: E402

del sys.path[: len(_folder)]
leave_folder(_here, _own)

_this = sys.modules.pop("sitecustomize")
try:
    __import__("sitecustomize")
except ModuleNotFoundError as _error:
    if _error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this
