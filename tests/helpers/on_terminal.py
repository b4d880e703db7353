"""Runs `raypipe ARGUMENTS` on a terminal of its own."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parent.parent.parent
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Shown(NamedTuple):
    """What a terminal got."""

    exit_code: int
    raw: str

    @property
    def lines(self) -> list[str]:
        """Without colours and movements of the cursor."""
        return CONTROLS.sub("", self.raw).replace("\r\n", "\n").split("\n")


def on_terminal(*arguments: object, columns: int = 80) -> Shown:
    """stdout and stderr of a command, as a terminal of so many columns gets them."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "raypipe", *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=REPOSITORY,
        env={**variables, "TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:  # Linux tells so that the other end is closed
                break
            if not read:
                break
            told += read
    os.close(ours)
    return Shown(process.returncode, told.decode())
