"""The table of crash points, and every fault at every one of them.

python tests/tools/crash_points.py            # prints the tables: scenarios, calls, faults
python tests/tools/crash_points.py --run      # and tries them all; exit 1 where something is wrong
python tests/tools/crash_points.py --write    # puts the tables into tests/faults/crash_points.md
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "faults" / "crash_points.md"
MARK = "<!-- the tables are written by tests/tools/crash_points.py -->\n"
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from crashes.table import SCENARIOS, calls, rendered, rows  # noqa: E402
from crashes.trial import disturbed, scratch, trials, undisturbed  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Print, run or write; 1 where a trial found something wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="try every fault at every call")
    parser.add_argument("--write", action="store_true", help="put the tables into docs")
    options = parser.parse_args(arguments)
    with scratch() as place:
        folders = {name: place / str(i) for i, name in enumerate(SCENARIOS)}
        calms = {name: undisturbed(SCENARIOS[name], folders[name]) for name in SCENARIOS}
        print(tables(calms))
        if options.write:
            PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + "\n" + tables(calms))
        return run(calms, folders) if options.run else 0


def tables(calms) -> str:
    """Both tables."""
    return f"{rendered(rows(calms))}\n{rendered(calls(calms))}"


def run(calms, folders) -> int:
    """Try everything; print what is wrong."""
    found = 0
    for name, calm in calms.items():
        for fault in trials(calm):
            for wrong in disturbed(SCENARIOS[name], calm, fault, folders[name]):
                found += 1
                call = calm.calls[fault.at - 1]
                print(f"{name}: {fault.kind} at call {fault.at} ({call}): {wrong}", flush=True)
    print(f"{found} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
