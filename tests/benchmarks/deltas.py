"""What `export --since` takes by how much changed, over made-up passages with vectors of 4 values.

    PYTHONPATH=tests/helpers python tests/benchmarks/deltas.py [--rows 1000000]

CPU seconds of this process, which had read the same stores before.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from nights_by_hand import Nights

from raypipe.driver.upkeep.delta import export_delta

SHARES = (0.0, 0.001, 0.01, 0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    num_rows = parser.parse_args().rows
    print("| changed | upserts | CPU s | MB written |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(Path(folder))
        passages = {f"p{row}": (f"text {row} " + "word " * 16, "cpu") for row in range(num_rows)}
        for share in SHARES:
            first = nights.add(passages)
            for name in random.Random(first).sample([*passages], int(share * num_rows)):
                passages[name] = (f"{passages[name][0]} {first}", "cpu")
            nights.add(passages)
            measure(nights, first, f"{share:.1%}")
            nights.states.clear()
        measure(nights, 0, "the whole")
    return 0


def measure(nights: Nights, since: int, name: str) -> None:
    """Print the second of two exports."""
    for turn in range(2):
        out, start = nights.root.parent / f"{name}-{turn}", time.process_time()
        manifest = export_delta(nights.root / "vectors", since, out)
        seconds = time.process_time() - start
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    print(f"| {name} | {manifest['upserts']:,} | {seconds:.1f} | {size:,.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
