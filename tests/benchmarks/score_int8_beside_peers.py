"""int8 of raypipe beside CrossEncoder in torch, ONNX and OpenVINO: one thread, process CPU time.

    python tests/benchmarks/score_int8_beside_peers.py DL21_FOLDER

Needs optimum-onnx, optimum-intel[openvino] and nncf, which want another transformers than raypipe:
a virtual environment of its own. ONNX int8 is sentence-transformers' dynamic quantisation for
AVX512-VNNI. OpenVINO int8 is nncf's static quantisation, which sentence-transformers calls too, but
here calibrated on other pairs of the same queries, as its own call fetches a set from a hub. The
first 5 candidates of 20 queries, MiniLM's weights under an untrained head. Rounds alternate in
order; ratios are paired within a round, to raypipe in int8. Prints differences to torch in fp32.
"""

import importlib.util
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import score_beside_sentence_transformers as plain
import torch
from scipy.stats import kendalltau
from sentence_transformers import CrossEncoder

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_scorer
from raypipe.models.machine.device import numerics_class
from raypipe.models.machine.precision import able
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch

NEEDED = ("optimum", "onnxruntime", "openvino", "nncf")
BATCHES, ROUNDS = (1, 8, 32), 5
OURS = ("raypipe", "int8", 2048)
Pairs = list[tuple[str, str]]


def peers_of(name: str, calibration: Pairs) -> dict[str, CrossEncoder]:
    """Every way of the peer, on one thread."""
    import onnxruntime
    from sentence_transformers import export_dynamic_quantized_onnx_model

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    make = partial(CrossEncoder, name, device="cpu", max_length=512)
    peers = {
        "torch fp32": make(model_kwargs={"dtype": torch.float32}),
        "torch bf16": make(model_kwargs={"dtype": torch.bfloat16}),
        "onnx fp32": make(backend="onnx", model_kwargs={"session_options": options}),
    }
    for kind in ("f32", "bf16"):
        peers[f"openvino {kind}"] = make(
            backend="openvino", model_kwargs={"ov_config": hints(kind)}
        )
    peers["onnx fp32"].save_pretrained(name)
    export_dynamic_quantized_onnx_model(peers["onnx fp32"], "avx512_vnni", name)
    file = {"file_name": "onnx/model_qint8_avx512_vnni.onnx", "session_options": options}
    peers["onnx int8"] = make(backend="onnx", model_kwargs=file)
    int8 = quantised(peers["openvino f32"], calibration)
    for kind in ("f32", "bf16"):
        found = make(backend="openvino", model_kwargs={"ov_config": hints(kind)})
        inner_of(found).model = int8
        inner_of(found).request = inner_of(found).compiled_model = None
        inner_of(found).compile()
        peers[f"openvino int8, {kind}"] = found
    return peers


def hints(kind: str) -> dict[str, str]:
    return {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": kind}


def inner_of(peer: CrossEncoder) -> Any:
    """optimum's model of it."""
    return peer.model if hasattr(peer.model, "request") else peer[0].auto_model


def quantised(peer: CrossEncoder, calibration: Pairs) -> Any:
    """The peer's OpenVINO model in int8, by nncf."""
    import nncf

    def inputs(pair: tuple[str, str]) -> dict[str, np.ndarray]:
        found = peer.tokenizer(*pair, truncation=True, max_length=512, return_tensors="np")
        return {key: np.asarray(value, dtype=np.int64) for key, value in found.items()}

    data = nncf.Dataset(calibration, inputs)
    kind, most = nncf.ModelType.TRANSFORMER, len(calibration)
    model = inner_of(peer).model.clone()
    return nncf.quantize(model, data, model_type=kind, subset_size=most)


def main() -> None:
    missing = [each for each in NEEDED if importlib.util.find_spec(each) is None]
    if missing:
        wanted = "pip install optimum-onnx 'optimum-intel[openvino]' nncf onnxruntime"
        where = "in a virtual environment of its own"
        sys.exit(f"not installed: {', '.join(missing)}; {wanted} {where}")
    torch.set_num_threads(1)
    queries, passages, of_query, of_passage = plain.pairs_of(Path(sys.argv[1]))
    every = [(queries[q], passages[p]) for q, p in zip(of_query, of_passage, strict=True)]
    timed = [number for number in range(len(every)) if number % 2 == 0]
    together = [every[number] for number in timed]
    of_query, of_passage = [of_query[n] for n in timed], [of_passage[n] for n in timed]
    with tempfile.TemporaryDirectory() as name:
        plain.model_in(Path(name))
        model = resolve_model(name)
        tokenizer = open_tokenizer(model)
        scorers = {p: load_scorer(model.in_precision(p), threads=1) for p in able("cpu")}
        peers = peers_of(name, every[1::2][:40])

        def part(texts: list[str], rows: list[int]) -> TextSlice:
            flat, offsets = tokenize_batch(tokenizer, texts, max_pieces=512)
            return TextSlice(flat, offsets[:-1][rows], np.diff(offsets)[rows])

        def ours(precision: str) -> np.ndarray:
            return scorers[precision].score(part(queries, of_query), [part(passages, of_passage)])

        def theirs(kind: str, batch: int) -> np.ndarray:
            identity = torch.nn.Identity()
            return peers[kind].predict(together, batch_size=batch, activation_fn=identity)

        ways = {("raypipe", p, 2048): partial(ours, p) for p in scorers}
        ways |= {("peer", k, b): partial(theirs, k, b) for k in peers for b in BATCHES}
        scores = {way: np.ravel(run()) for way, run in ways.items()}
        exact = scores["peer", "torch fp32", 8]
        assert np.abs(scores["raypipe", "fp32", 2048] - exact).max() < 1e-4
        seconds: dict[tuple[str, str, int], list[float]] = {way: [] for way in ways}
        for number in range(ROUNDS):
            for way in list(ways)[:: 1 if number % 2 else -1]:
                began = time.process_time()
                ways[way]()
                seconds[way].append(time.process_time() - began)
    print(f"{numerics_class('cpu')}; {len(together)} pairs; {ROUNDS} rounds")
    for way, found in seconds.items():
        ratio = np.array(found) / np.array(seconds[OURS])
        print(
            f"{way[0]} {way[1]} {way[2]}: {len(together) / np.median(found):.1f} pairs/CPU s; "
            f"takes {np.median(ratio):.2f} times raypipe's int8 [{ratio.min():.2f}, "
            f"{ratio.max():.2f}]; largest difference {np.abs(scores[way] - exact).max():.4f}, "
            f"tau {kendalltau(scores[way], exact).statistic:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
