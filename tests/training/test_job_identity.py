"""What of its start model decides a training, and a start that changed under it."""

import json


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


def test_an_encoder_draws_no_head_and_its_fingerprint_has_no_range(job, folder):
    encoder = {"preset": "repbert", "total_limit": None, "passage_limit": 20, "loss": "info-nce"}
    before = job(**encoder).spec.fingerprint()
    change(folder, initializer_range=0.1)
    assert job(**encoder).spec.fingerprint() == before
