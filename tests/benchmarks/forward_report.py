"""What jobs/benchmark.py says: the machine, and a table of its rows."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from raypipe.models.machine.device import numerics_class, tokens_of_pass

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "pyserini",
    "flash-attn",
    "faiss-cpu",
    "triton",
)


def header(device):
    """Device, library and versions; None for a package that is not installed."""
    return {
        "device": torch.cuda.get_device_name(0) if device == "cuda" else processor(),
        "numerics_class": numerics_class(device),
        "driver": driver() if device == "cuda" else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "tokens_of_pass": tokens_of_pass(device),
        "threads": torch.get_num_threads(),
    } | {name: installed(name) for name in PACKAGES}


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def processor():
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {platform.machine()}"


def driver():
    file = Path("/proc/driver/nvidia/version")
    return file.read_text().splitlines()[0] if file.exists() else "not told by this machine"


def table(report):
    """The report as Markdown."""
    told, rates, price = report["machine"], report["rates"], report["price"]
    cost = "| - " if price is None else f"| $ a million at ${price} an hour "
    products = ", ".join(f"{p} {r / 1e12:.3f}" for p, r in rates.items() if p != "copy")
    versions = ", ".join(f"{name} {told[name]}" for name in PACKAGES if told[name])
    lines = [
        f"{told['device']}; {told['numerics_class']}; {told['threads']} threads; "
        f"driver: {told['driver']}; {versions}; Python {told['python']}",
        "",
        *test_lines(report["tests"]),
        *([f"Products: {products} TFLOP/s; copy {rates['copy'] / 1e9:.1f} GB/s."] if rates else []),
        "",
        f"On {told['device']}, ratios to peers at the best of their batches:",
        "",
        "| work | precision | items/s | tokens/s | TFLOP/s | share of products | GPU idle "
        f"{cost}| times as fast as | padding of that batch |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        rate, idle = row["operations_per_second"], row["idle_share"]
        most = rates.get(row["precision"])
        share = "-" if most is None else f"{rate / most:.0%}"
        ratios = "; ".join(
            f"{b['times_as_fast']:.2f} [{b['range'][0]:.2f}, {b['range'][1]:.2f}] {b['peer']} "
            f"(from {b['from']})"
            for b in row["beside"]
        )
        sizes = [int(b["peer"].rpartition(" ")[2]) for b in row["beside"]]
        padding = ", ".join(f"{row['padding'][size]:.2f}" for size in sizes)
        lines.append(
            f"| {row['case']} | {row['precision']} | "
            f"{row['items_per_second']:,.1f} | {row['tokens_per_second']:,.0f} | "
            f"{rate / 1e12:.3f} | {share} | "
            f"{'-' if idle is None else f'{idle:.1%}'} | "
            f"{'-' if price is None else format(dollars(row['items_per_second'], price), '.2f')} | "
            f"{ratios} | {padding} |"
        )
    lines += inside_lines(report["rows"])
    lines += training_lines(report["training"], told["device"]) if report["training"] else []
    lines += search_lines(report["search"]) if report["search"] else []
    there = report["search_on_device"]
    lines += lines_on_device(there, told["device"]) if there else []
    shared = report["shared"]
    lines += lines_of_sharing(shared, told["device"]) if shared else []
    lines += ["", *(f"Not run, out of time: {name}." for name in report["not_run"])]
    lines += [f"Left out: {name}." for name in report["left_out"]]
    lines += [f"Failed: {name}" for name in report["failed"]]
    return "\n".join(lines) + "\n"


def inside_lines(rows):
    """The ways of the work between products, and the kernels that take the longest."""
    compared = [row for row in rows if row.get("between")]
    lines = ["", "The work between products, times as fast as torch's own functions:", ""]
    lines += ["| work | precision | way | a whole run |", "|---|---|---|---|"]
    lines += [
        f"| {row['case']} | {row['precision']} | {way} | {ratio:.2f} [{low:.2f}, {high:.2f}] |"
        for row in compared
        for way, (ratio, low, high) in row["between"].items()
    ]
    lines = lines if compared else []
    for row in rows:
        if row.get("profile"):
            lines += ["", f"{row['case']}, {row['precision']}, shares of the device's time:", ""]
            lines += [f"    {share:6.1%} {name[:90]}" for name, share in row["profile"]]
            took = f"{row['tokenizing_seconds']:.2f} s beside {row['seconds']:.2f} s from pieces"
            lines += ["", f"Tokenising its {row['items']:,} inputs takes {took}."]
    return lines


def dollars(items_per_second, price):
    """A million items at a price of dollars an hour."""
    return 1e6 / items_per_second / 3600 * price


def test_lines(tests):
    """The command of the tests of bytes and equality, and its words."""
    if tests is None:
        return []
    words = [f"    {line}" for line in tests["said"]]
    return [f"Tests, exit {tests['exit']}: `{tests['command']}`", "", *words, ""]


def training_lines(rows, device):
    """Seconds of an update."""
    lines = ["", f"Updates of a model on {device}:", ""]
    lines += ["| work | precision | examples | seconds |", "|---|---|---|---|"]
    for row in rows:
        low, high = row["range"]
        lines.append(
            f"| {row['case']} | {row['precision']} | {row['examples']} | "
            f"{row['seconds']:.3f} [{low:.3f}, {high:.3f}] |"
        )
    return lines


def lines_on_device(found, device):
    """Exact search on the device."""
    size, seconds = found["size"], found["seconds"]
    return [
        "",
        f"Exact search on {device}: {size['queries']:,} queries over {size['rows']:,} fp16 vectors "
        f"of {size['dim']}, depth {size['depth']:,}, took {seconds:.2f} s "
        f"({found['queries_per_second']:,.0f} queries/s), of which "
        f"{found['on_device_seconds']:.2f} s on the device and the rest for exact scores on "
        f"{found['threads']} threads. The float32 products alone take "
        f"{found['products_seconds']:.2f} s, {found['products_seconds'] / seconds:.0%} of it. "
        f"Queries in a second pass: {found['queries_in_a_second_pass']}.",
    ]


def lines_of_sharing(shared, device):
    """One actor on the device, and two that share it."""
    (one, idle), (two, idle_of_two) = shared["ways"].values()
    return [
        "",
        f"On Ray, {shared['rows']:,} passages into vectors on {device}: {one:,.0f}/s by one actor, "
        f"idle {idle:.0%}; {two:,.0f}/s by two that share it, idle {idle_of_two:.0%} "
        f"({two / one:.2f}).",
    ]


def search_lines(found):
    """Exact search beside the products alone, and beside faiss."""
    size, alone = found["size"], found["products"]
    batches = found["faiss"]["batches"] if "faiss" in found else {}
    beside = [(str(size["queries"]), f"the products alone ({alone['way']})", alone)]
    beside += [(some, "faiss, IndexFlatIP", both) for some, both in batches.items()]
    lines = [
        "",
        f"Exact search: {size['rows']:,} fp16 vectors of {size['dim']}, depth {size['depth']:,}, "
        f"one thread; the products alone at {alone['operations_per_second'] / 1e9:.0f} GFLOP/s. "
        "Seconds of CPU time, median [range].",
        "",
        "| queries at a time | raypipe | beside | its seconds | it takes, of raypipe's time "
        "| raypipe against itself | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for queries, peer, both in beside:
        told = both["cpu"]
        own, other, times, again = (
            "{:.2f} [{:.2f}, {:.2f}]".format(*told[name])
            for name in ("raypipe_seconds", "other_seconds", "other_takes", "against_itself")
        )
        lines.append(
            f"| {queries} | {own} | {peer} | {other} | {times} | {again} | {both['rounds']} |"
        )
    return lines
