"""The command `raypipe`, and `python -m raypipe`."""

import sys

from raypipe.isolation import leave_folder


def main() -> None:
    """Run the command, and import nothing of the folder in which it runs."""
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, or that of the script
    leave_folder()
    from raypipe.cli import main as run

    run()


if __name__ == "__main__":
    main()
