import pytest

from raypipe.errors import InputError
from raypipe.models.folder.files import initializer_range, tensor_shapes


def test_a_file_that_is_no_safetensors_is_an_input_error(tmp_path):
    file = tmp_path / "model.safetensors"
    for make in (lambda: file.write_bytes(b"no"), file.unlink, file.mkdir):
        make()
        with pytest.raises(InputError, match="(not|expected) a safetensors file"):
            tensor_shapes(file)


def test_a_config_that_does_not_say_how_wide_weights_are_drawn_has_berts_own():
    assert initializer_range({}) == 0.02 and initializer_range({"initializer_range": 1}) == 1.0
