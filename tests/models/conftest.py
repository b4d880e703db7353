"""Copies of tiny models that a test may damage."""

import shutil
from random import Random

import pytest
from sentencepiece import SentencePieceTrainer

WORDS = "the a of lease shard rank passage zebra run true false".split()


@pytest.fixture
def mono(tiny_mono, tmp_path):
    return shutil.copytree(tiny_mono, tmp_path / "mono")


@pytest.fixture
def encoder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "encoder")


@pytest.fixture(scope="session")
def t5_pieces(tmp_path_factory):
    """A T5's spiece.model, trained on lines of a few words."""
    folder = tmp_path_factory.mktemp("pieces")
    drawn = Random(0)
    lines = [" ".join(drawn.choices(WORDS, k=8)) for _ in range(2000)]
    (folder / "lines.txt").write_text("\n".join([*lines, *["Query: Document: Relevant:"] * 50]))
    SentencePieceTrainer.train(
        input=str(folder / "lines.txt"),
        model_prefix=str(folder / "spiece"),
        vocab_size=48,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    return folder / "spiece.model"
