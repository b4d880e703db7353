"""One GPU: rates of encoding and scoring as a share of the matrix products' own rate.

    python tests/benchmarks/gpu.py [--out FILE] [--device cpu --quick]

Needs torch, transformers, tokenizers, safetensors and numpy; under 8 minutes on an H200. With
--out FILE writes FILE.json and FILE.md. Everything is fp32, TF32 off: raypipe computes so today.

First the machine: products of two 8192 x 8192 matrices in fp32, TF32 and bf16 (2 * 8192^3
operations), and a copy of 4 GiB (bytes read and written). Then word pieces in memory to vectors or
scores in memory (no tokenizer on our side), over models with random weights:

- encode: 6 layers of 384 (MiniLM's shape) and 12 of 768 (BERT-base's). Lengths as of MS MARCO's
  passages: normal, mean 71 pieces, standard deviation 28, cut to 5..254, seed 0.
- mono: BERT-base and BERT-large (24 of 1024), a query of 3 to 16 pieces (uniform) with such a
  passage, inputs of 83 tokens; and BERT-base again where every input is 512 tokens long.
- duo: BERT-base, a query with two such passages.

Operations of T tokens in inputs of L tokens, N layers, H hidden: 2 * 12 H^2 N T in the linear
layers (query, key, value and output 4 H^2, the inner layer 8 H^2) and 4 L H N T in attention. Less
where the last layer computes only [CLS] after attention (rerankers): the count is what is computed.

Beside it, over the same folder and with TF32 off too: transformers' own forward over inputs sorted
by length and padded, which begins with word pieces as we do; and where it is installed
sentence-transformers' encode or predict, which begins with text, beside ours from text. Each at
several batch sizes, its best one taken. All must agree before anything is timed. Rounds alternate
in order; medians stand, and the range of the ratios within a round. What the time limit leaves no
room for is named as not run.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers"), str(ROOT / "tests" / "benchmarks")]

import torch  # noqa: E402
from gpu_peers import peers_of  # noqa: E402
from gpu_work import FULL, QUICK, Work, operations  # noqa: E402

from raypipe.models.machine.device import BUDGET_TOKENS, numerics_class  # noqa: E402


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(work, device):
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


def machine(device, settings):
    """Rates of products (operations a second) and of a copy (bytes a second), medians."""
    size, rounds = settings.matrix, settings.machine_rounds
    rates = {}
    for name, dtype, tf32 in (
        ("fp32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bf16", torch.bfloat16, False),
    ):
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

        def product(a=a, b=b):
            return a @ b

        for _ in range(3):
            product()
        rates[name] = (
            2 * size**3 / statistics.median(seconds_of(product, device) for _ in range(rounds))
        )
    torch.set_float32_matmul_precision("highest")
    source = torch.empty(settings.copy_bytes // 4, device=device).normal_()
    target = torch.empty_like(source)
    target.copy_(source)
    took = statistics.median(
        seconds_of(lambda: target.copy_(source), device) for _ in range(rounds)
    )
    rates["copy"] = 2 * settings.copy_bytes / took
    return rates


def measured(case, settings, device, folder, until):
    """One row of the table; rounds end when the time is up."""
    work = Work(case, settings, device, folder)
    scopes = {scope: {"raypipe": ours, **peers} for scope, ours, peers in peers_of(work, settings)}
    ways = {(scope, way): run for scope, found in scopes.items() for way, run in found.items()}
    ways, difference = work.agreeing(ways)  # and so each has been warmed up
    first, peak = {}, None
    for way, run in ways.items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        first[way] = seconds_of(run, device)
        if device == "cuda" and way == ("pieces", "raypipe"):
            peak = torch.cuda.max_memory_allocated()
    chosen = [("pieces", "raypipe")]
    for scope in scopes:
        own, peers = (scope, "raypipe"), [w for w in ways if w[0] == scope and w[1] != "raypipe"]
        chosen += [own, min(peers, key=first.__getitem__)] if peers else []
    seconds = {way: [] for way in dict.fromkeys(chosen)}
    for number in range(settings.rounds):
        for way in list(seconds)[:: 1 if number % 2 else -1]:
            seconds[way].append(seconds_of(ways[way], device))
        if time.monotonic() > until:
            break
    own = statistics.median(seconds["pieces", "raypipe"])
    row = {
        "case": case.name,
        "items": work.items,
        "tokens": int(work.lengths.sum()),
        "rounds": len(seconds["pieces", "raypipe"]),
        "seconds": own,
        "items_per_second": work.items / own,
        "tokens_per_second": int(work.lengths.sum()) / own,
        "operations_per_second": operations(case, work.lengths) / own,
        "largest_difference": difference,
        "peak_bytes": peak,
        "one_run_each": {f"{way}, from {scope}": took for (scope, way), took in first.items()},
        "beside": [],
    }
    for scope, way in seconds:
        if way != "raypipe":
            pairs = zip(seconds[scope, "raypipe"], seconds[scope, way], strict=True)
            ratios = [theirs / ours for ours, theirs in pairs]
            row["beside"].append(
                {
                    "peer": way,
                    "from": scope,
                    "raypipe_seconds": statistics.median(seconds[scope, "raypipe"]),
                    "peer_seconds": statistics.median(seconds[scope, way]),
                    "times_as_fast": statistics.median(ratios),
                    "range": [min(ratios), max(ratios)],
                }
            )
    return row


def header(device):
    found = {
        "device": torch.cuda.get_device_name(0) if device == "cuda" else platform.machine(),
        "numerics_class": numerics_class(device),
        "driver": driver() if device == "cuda" else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "budget_tokens": BUDGET_TOKENS[device],
        "threads": torch.get_num_threads(),
    }
    for name in ("torch", "transformers", "tokenizers", "sentence-transformers"):
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            found[name] = None
    return found


def driver():
    file = Path("/proc/driver/nvidia/version")
    return file.read_text().splitlines()[0] if file.exists() else "not told by this machine"


def table(report):
    told, rates = report["machine"], report["rates"]
    lines = [
        f"{told['device']}; {told['numerics_class']}; driver: {told['driver']}; "
        f"transformers {told['transformers']}, "
        f"sentence-transformers {told['sentence-transformers']}; Python {told['python']}",
        "",
        f"Products: fp32 {rates['fp32'] / 1e12:.2f}, TF32 {rates['tf32'] / 1e12:.2f}, "
        f"bf16 {rates['bf16'] / 1e12:.2f} TFLOP/s; copy {rates['copy'] / 1e9:.1f} GB/s.",
        "",
        "| work | items/s | tokens/s | TFLOP/s | share of fp32 products | times as fast as |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        rate = row["operations_per_second"]
        beside = "; ".join(
            f"{b['times_as_fast']:.2f} [{b['range'][0]:.2f}, {b['range'][1]:.2f}] {b['peer']} "
            f"(from {b['from']})"
            for b in row["beside"]
        )
        lines.append(
            f"| {row['case']} | {row['items_per_second']:,.1f} | "
            f"{row['tokens_per_second']:,.0f} | {rate / 1e12:.3f} | {rate / rates['fp32']:.0%} | "
            f"{beside} |"
        )
    lines += ["", *(f"Not run, out of time: {name}." for name in report["not_run"])]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="FILE.json and FILE.md are written")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--quick", action="store_true", help="tiny shapes, seconds on a CPU")
    parser.add_argument("--minutes", type=float, default=7.5, help="no round begins after these")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"no CUDA device: torch {torch.__version__} sees none; --device cpu --quick tries")
    settings = QUICK if given.quick else FULL
    report = {"machine": header(given.device), "quick": given.quick, "rows": [], "not_run": []}
    report["rates"] = machine(given.device, settings)
    for number, case in enumerate(settings.cases):
        left = given.minutes * 60 - (time.monotonic() - began)
        if left <= 0:
            report["not_run"].append(case.name)
            continue
        until = time.monotonic() + left / (len(settings.cases) - number)
        if given.device == "cuda":
            torch.cuda.empty_cache()
        with tempfile.TemporaryDirectory() as folder:
            row = measured(case, settings, given.device, Path(folder) / "model", until)
        spent = time.monotonic() - began
        print(f"{case.name}: {row['seconds']:.3f} s; {spent:.0f} s spent", file=sys.stderr)
        report["rows"].append(row)
    print(table(report))
    if given.out:
        Path(f"{given.out}.json").write_text(json.dumps(report, indent=1) + "\n")
        Path(f"{given.out}.md").write_text(table(report))


if __name__ == "__main__":
    main()
