"""What of its start model and recipe decides a training."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from raypipe.config.training import Sparsity, TrainedModel
from raypipe.errors import InputError
from raypipe.models.folder.settings import PRESETS
from raypipe.training.export import made_by
from raypipe.training.job import DevPassages, DevStores, conventions_of_training


def test_a_recipe_lays_its_limits_over_the_presets():
    mono = conventions_of_training(TrainedModel(start="x", preset="monobert", query_limit=7))
    assert (mono.query_limit, mono.total_limit) == (7, PRESETS["monobert"].total_limit)
    assert mono.relevant_label == PRESETS["monobert"].relevant_label
    one = conventions_of_training(TrainedModel(start="x", preset="monobert", head=1))
    assert one.relevant_label is None
    duo = conventions_of_training(TrainedModel(start="x", preset="duobert"))
    assert duo.segment_row == "copy"
    zero = conventions_of_training(TrainedModel(start="x", preset="duobert", segment_row="zero"))
    assert zero.segment_row == "zero"
    with pytest.raises(InputError, match=r"model\.total_limit: an encoder has"):
        conventions_of_training(TrainedModel(start="x", preset="repbert", total_limit=9))
    encoder = conventions_of_training(TrainedModel(start="x", preset="repbert", passage_limit=9))
    assert encoder.passage_limit == 9


def change(folder, **fields):
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, **fields}))


def test_the_start_models_config_is_in_the_fingerprint(job, folder):
    before = job().spec
    change(folder, num_attention_heads=1, initializer_range=0.1)
    changes = [str(each) for each in before.diff(job().spec)]
    assert changes == [
        "params.start_config.initializer_range 0.02 -> 0.1",
        "params.start_config.num_attention_heads 4 -> 1",
    ]


def test_a_blend_is_in_the_settings_and_the_fingerprint(job):
    plain = job(loss="listwise")
    assert plain.conventions.blend == 0
    loss = plain.recipe.loss.model_copy(update={"blend": 4.0, "teacher_weight": 0.5})
    blended = replace(plain, recipe=plain.recipe.model_copy(update={"loss": loss}))
    assert blended.conventions.blend == 4.0
    changes = [str(each) for each in plain.spec.diff(blended.spec)]
    assert changes == [
        "params.loss.blend 0.0 -> 4.0",
        "params.loss.teacher_weight 0.0 -> 0.5",
    ]
    for name in ("blend", "blend_over_bm25"):
        given = TrainedModel(start="x", settings={"kind": "mono", name: 2})
        with pytest.raises(InputError, match=rf"settings: {name}: a training's is loss\.blend"):
            conventions_of_training(given)


def test_a_penalty_is_in_the_fingerprint(job):
    plain = job()
    flops = Sparsity(queries=0.5, passages=0.25, warmup=9)
    loss = plain.recipe.loss.model_copy(update={"flops": flops})
    pressed = replace(plain, recipe=plain.recipe.model_copy(update={"loss": loss}))
    own = {"queries": 0.5, "passages": 0.25, "warmup": 9}
    assert pressed.spec.params["loss"] == {**plain.spec.params["loss"], "flops": own}
    told = made_by(pressed, 1)["settings"]["loss"]
    assert told["flops"] == own and "l1" not in told
    assert "flops" not in made_by(plain, 1)["settings"]["loss"]


def test_an_encoder_draws_no_head_and_its_fingerprint_has_no_range(job, folder):
    encoder = {"preset": "repbert", "total_limit": None, "passage_limit": 20, "loss": "info-nce"}
    before = job(**encoder).spec.fingerprint()
    change(folder, initializer_range=0.1)
    assert job(**encoder).spec.fingerprint() == before


def test_clipping_and_schedule_are_in_the_fingerprint(job):
    plain = job()
    optimiser = plain.recipe.optimiser.model_copy(update={"clip_after": "batch"})
    chosen = plain.recipe.model_copy(update={"schedule_steps": 99, "optimiser": optimiser})
    changes = [str(each) for each in plain.spec.diff(replace(plain, recipe=chosen).spec)]
    assert changes == [
        "params.optimiser.clip_after step -> batch",
        "params.schedule_steps null -> 99",
    ]


def test_the_head_that_is_drawn_and_a_dev_sets_documents_are_in_the_fingerprint(job):
    def stored(name):
        return SimpleNamespace(identity=name)

    def dev(run="r", method="maxp", k=4):
        of = DevPassages(stored(run), stored("m"), method, k)
        one = [stored(name) for name in ("run", "queries", "collection", "q", "p")]
        return DevStores(*one, "qrels.txt", "sha", 5, None, of)

    plain = replace(job(), dev=(dev(),))
    assert plain.spec.params["new_head"] is False and plain.store == "weights@small"
    others = [replace(plain, dev=(dev(**c),)) for c in ({"run": "s"}, {"method": "avgp"}, {"k": 3})]
    every = [plain, *others, replace(plain, new_head=True), replace(plain, dev=())]
    assert len({each.spec.fingerprint() for each in every}) == len(every)
    phase = replace(plain, phase="one")
    assert phase.store == "weights@small.one"
    assert phase.spec.fingerprint() == plain.spec.fingerprint()


@pytest.mark.parametrize(
    ("kind", "settings", "changed"),
    [
        ("bert", {"preset": "monobert", "query_limit": 12, "total_limit": 64}, False),
        ("roberta", {"preset": "monobert", "query_limit": 12, "total_limit": 64}, False),
        ("roberta", {"preset": "splade", "query_limit": 8, "passage_limit": 62}, True),
        ("distilbert", {"preset": "repbert", "query_limit": 8, "passage_limit": 62}, True),
    ],
)
def test_trainings_whose_normalisations_decayed_as_weights_are_made_anew(
    job, folder, kind, settings, changed
):
    import drawn_models

    shutil.rmtree(folder)
    drawn_models.make(folder, kind, words=settings["preset"] == "splade", units=None)
    loss = "cross-entropy" if settings["preset"] == "monobert" else "info-nce"
    limits = dict.fromkeys(("query_limit", "total_limit"))
    spec = job(loss=loss, **{**limits, **settings}).spec
    assert ("normalisations" in spec.params) == changed
