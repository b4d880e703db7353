"""Rates of encoding and scoring beside peers, and of training, for jobs/benchmark.py.

Operations of T tokens in inputs of L tokens, N layers, H hidden: 2 * 12 H^2 N T in the linear
layers (query, key, value and output 4 H^2, the inner layer 8 H^2) and 4 L H N T in attention. Less
where the last layer computes only [CLS] after attention (rerankers): the count is what is computed.
"""

import statistics
import time

import forward_between as between
import torch
from forward_peers import peers_of
from forward_work import Work, operations, padding_of
from random_bert import make_random_bert
from training_steps import gradients, make_batch, make_trainee

from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.machine.precision import DTYPES, able, set_products
from raypipe.training.steps import Adam, clip_


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(work, device):
    """Time on a GPU's machine; CPU time of the process on a CPU, which others may be using too."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    wait(device)
    began = clock()
    work()
    wait(device)
    return clock() - began


def machine(device, settings):
    """Rates of products by precision (operations a second) and of a copy (bytes a second)."""
    size, rounds = settings.matrix, settings.machine_rounds
    rates = {}
    for precision in (each for each in able(device) if each != "int8"):
        set_products(precision)
        a, b = (torch.randn(size, size, device=device).to(DTYPES[precision]) for _ in range(2))

        def product(a=a, b=b):
            return a @ b

        for _ in range(3):
            product()
        took = statistics.median(seconds_of(product, device) for _ in range(rounds))
        rates[precision] = 2 * size**3 / took
    set_products()
    source = torch.empty(settings.copy_bytes // 4, device=device).normal_()
    target = torch.empty_like(source)
    target.copy_(source)
    took = statistics.median(
        seconds_of(lambda: target.copy_(source), device) for _ in range(rounds)
    )
    rates["copy"] = 2 * settings.copy_bytes / took
    return rates


def measured(case, precision, settings, device, folder, until, tuned):
    """One row of the table; rounds end when the time is up.

    `tuned` has the fastest way of each side and scope by case and precision, from an earlier run on
    this machine; ways that are not in it are tried once, and the fastest ones are added.
    """
    work = Work(case, settings, device, folder, precision)
    scopes = list(peers_of(work, settings))
    ways = {
        (scope, own, name): run
        for scope, *sides in scopes
        for own, side in zip((True, False), sides, strict=True)
        for name, run in side.items()
    }
    looked_into = compared_between(work, settings, until) if settings.looks_inside else {}
    known = tuned.get(f"{case.name}, {precision}", {})
    chosen = {
        key: way for key in ways if (way := known.get(f"{key[0]}, {key[1]}")) and key[2] == way
    }
    if chosen and len(chosen) == len({key[:2] for key in ways}):
        ways = {key: run for key, run in ways.items() if key in chosen}
    ways, difference = work.agreeing(ways, until)  # and so each has been warmed up
    first, peak = {}, None
    for way, run in ways.items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        first[way] = seconds_of(run, device)
        if device == "cuda" and way[:2] == ("pieces", True):
            peak = max(peak or 0, torch.cuda.max_memory_allocated())
    best = {}
    for way in sorted(ways, key=first.__getitem__):
        best.setdefault(way[:2], way)
    tuned[f"{case.name}, {precision}"] = {f"{k[0]}, {k[1]}": way[2] for k, way in best.items()}
    seconds = {way: [] for way in best.values()}
    for number in range(settings.rounds):
        for way in list(seconds)[:: 1 if number % 2 else -1]:
            seconds[way].append(seconds_of(ways[way], device))
        if time.monotonic() > until:
            break
    mine = best["pieces", True]
    own = statistics.median(seconds[mine])
    engine = work.engine.engine
    return {
        "case": case.name,
        "precision": precision,
        "numerics_class": work.engine.numerics,
        "items": work.items,
        "tokens": int(work.lengths.sum()),
        "rounds": len(seconds[mine]),
        "seconds": own,
        "items_per_second": work.items / own,
        "tokens_per_second": int(work.lengths.sum()) / own,
        "operations_per_second": operations(case, work.lengths) / own,
        "idle_share": None if engine is None else engine.busy.idle_share,
        "largest_difference": difference,
        "peak_bytes": peak,
        "padding": {n: padding_of(work.lengths, n) for n in settings.batch_sizes},
        "one_run_each": {f"{name}, from {scope}": t for (scope, _, name), t in first.items()},
        "beside": [
            beside(scope, best[scope, True], best[scope, False], seconds)
            for scope, *_ in scopes
            if (scope, False) in best
        ],
        **looked_into,
    }


def compared_between(work, settings, until):
    """The ways of the work between products beside the plain one, and a profile of one pass.

    Rounds alternate in order; ratios are paired within one: [median, least, largest].
    """
    width = work.case.shape.hidden
    fixed = between.ways(work.device, work.precision, width, every=work.case.inside)
    runs = {name: work.with_settings(each, settings.tokens_of_pass) for name, each in fixed.items()}
    runs, difference = work.agreeing({(name,): run for name, run in runs.items()}, float("inf"))
    seconds = {name: [] for (name,) in runs}
    for number in range(settings.rounds if len(runs) > 1 else 0):
        for name in list(seconds)[:: 1 if number % 2 else -1]:
            seconds[name].append(seconds_of(runs[name,], work.device))
        if time.monotonic() > until:
            break
    plain = seconds.pop("plain", [])
    times = {
        name: [p / own for p, own in zip(plain, took, strict=True)]
        for name, took in seconds.items()
    }
    return {
        "between": {
            name: [statistics.median(each), min(each), max(each)] for name, each in times.items()
        },
        "between_difference": difference,
        "profile": between.profile_of(work.ours, work.device) if work.case.inside else [],
        "tokenizing_seconds": seconds_of(work.tokenized(), work.device),
    }


def measured_training(case, precision, settings, device, folder):
    """An update of the model: forward, backward, clipping and Adam, median seconds."""
    model = resolve_model(str(make_random_bert(folder, case.shape, kind=case.kind)))
    set_products(precision)
    trainee = make_trainee(model, device, dropout=0.1, bf16=precision == "bf16")
    optimiser, batch = Adam(trainee.weights), make_batch(case.shape.words, num_examples=case.items)

    def update():
        _, found = gradients(model, trainee, batch, budget=16_384)
        clip_(list(found.values()), 1.0)
        optimiser.step(list(found.values()), rate=1e-6, number=1)

    update()
    took = [seconds_of(update, device) for _ in range(settings.rounds)]
    seconds = statistics.median(took)
    return {
        "case": case.name,
        "precision": precision,
        "examples": case.items,
        "seconds": seconds,
        "range": [min(took), max(took)],
        "examples_per_second": case.items / seconds,
    }


def beside(scope, mine, other, seconds):
    """Paired ratios of one scope: how many times as fast as the fastest peer."""
    ratios = [t / o for o, t in zip(seconds[mine], seconds[other], strict=True)]
    return {
        "peer": other[2],
        "from": scope,
        "raypipe_seconds": statistics.median(seconds[mine]),
        "peer_seconds": statistics.median(seconds[other]),
        "times_as_fast": statistics.median(ratios),
        "range": [min(ratios), max(ratios)],
    }
