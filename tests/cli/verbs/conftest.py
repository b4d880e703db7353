"""A masked language model as transformers saves it, without a pooler; an adapter over it."""

import pytest
from poolerless import made_by_peft
from safetensors.torch import load_file


@pytest.fixture(scope="session")
def base(tiny, tmp_path_factory):
    """A BertForMaskedLM with a tokenizer."""
    from transformers import BertForMaskedLM

    folder = tmp_path_factory.mktemp("base") / "base"
    BertForMaskedLM(tiny.tiny_config(folder, 0, 2)).save_pretrained(folder)
    assert not [name for name in load_file(folder / "model.safetensors") if "pooler" in name]
    return folder


@pytest.fixture(scope="session")
def adapter(base):
    """An adapter that peft saved, with a classifier."""
    return made_by_peft(base, base.parent / "adapter", pooler=False)


@pytest.fixture
def inputs(tmp_path):
    """The folder of three passages, two queries and a run of them."""
    (tmp_path / "passages.tsv").write_text("p0\tthe zebra\np1\ta lease\np2\tof shards\n")
    (tmp_path / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\n")
    lines = [f"{q} Q0 p{n} {n + 1} {9 - n} x\n" for q in ("q1", "q2") for n in range(3)]
    (tmp_path / "run.trec").write_text("".join(lines))
    return tmp_path
