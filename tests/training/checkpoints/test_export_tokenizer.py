import pytest

from raypipe.errors import InputError
from raypipe.training.checkpoints.export import _copy_tokenizer


def test_a_tokenizer_that_changed_since_the_training_began_is_not_exported(job, folder, tmp_path):
    begun = job()
    out = tmp_path / "out"
    out.mkdir()
    _copy_tokenizer(begun.start, out)
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    file = folder / "tokenizer.json"
    file.write_bytes(file.read_bytes().replace(b'"zebra"', b'"zebru"'))
    with pytest.raises(InputError, match="that the training read"):
        _copy_tokenizer(begun.start, out)
