"""Which layouts a training's inputs have."""

from dataclasses import replace
from types import SimpleNamespace

from raypipe.models.folder.model_folder import layouts_of, resolve_model
from raypipe.models.folder.settings import PRESETS
from raypipe.text.inputs import Layout
from raypipe.training.start import layouts_for


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
