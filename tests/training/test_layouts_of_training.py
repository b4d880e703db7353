"""Which layouts a training's inputs have, and what its batches count."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from raypipe.models.folder.loading import layouts_of, resolve_model
from raypipe.models.folder.presets import PRESETS
from raypipe.text.inputs import Layout
from raypipe.text.pairs import TextSlice
from raypipe.training.model.worker import layouts_for
from raypipe.training.steps.batch import Batch
from raypipe.training.steps.comm import Solo
from raypipe.training.steps.gradient import backward
from raypipe.training.steps.objective import Objective

spec = importlib.util.spec_from_file_location("gradients", Path(__file__).parent / "gradients.py")
own = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own)


def test_inputs_are_of_the_kind_in_training_whatever_it_starts_from():
    start = resolve_model("minilm")
    for preset, segments in (("monobert", (0, 1)), ("duobert", (0, 1, 2))):
        found = layouts_for(SimpleNamespace(start=start, conventions=PRESETS[preset]))
        assert found == {"pair": Layout(101, (102,), 102, segments)}
    repbert = layouts_for(SimpleNamespace(start=start, conventions=PRESETS["repbert"]))
    assert {side: layout.segments for side, layout in repbert.items()} == {
        "query": (0,),
        "passage": (1,),
    }
    assert layouts_of(replace(start, conventions=PRESETS["repbert"])) == repbert


def test_an_encoders_tokens_are_those_of_queries_and_passages_with_their_specials(tmp_path):
    spec = importlib.util.spec_from_file_location(
        "tiny", Path(__file__).parent.parent / "models" / "tiny.py"
    )
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    trainee, layouts = own.make_trainee(tiny.make_tiny_bert(tmp_path / "m"), "encoder")
    flat = np.full(30, 7, np.uint16)
    query = TextSlice(flat, np.zeros(2, np.int64), np.array([3, 4]))
    passage = TextSlice(flat, np.zeros(4, np.int64), np.array([5, 0, 6, 1]))
    positive = np.eye(2, 4, dtype=bool)
    batch = Batch(query, passage, 2, positive, None)
    given = (trainee, batch, Objective("multi-label-margin"), Solo(), layouts)
    worked = backward(*given, budget_tokens=99, weight=1.0, draw=(0,))
    assert worked.num_tokens == 3 + 4 + 5 + 0 + 6 + 1 + 2 * 6 and torch.isfinite(worked.loss)
