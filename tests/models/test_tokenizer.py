import pytest

from raypipe.errors import InputError
from raypipe.models import tokenizer
from raypipe.models.tokenizer import read_tokenizer


class PanicException(BaseException):
    """As the tokenizers' library names its own."""


def test_a_librarys_panic_is_an_input_error_and_an_interrupt_goes_its_way(encoder, monkeypatch):
    class Raising:
        error: BaseException = PanicException("broken\nlines")

        @classmethod
        def from_file(cls, path):
            raise cls.error

    monkeypatch.setattr(tokenizer, "Tokenizer", Raising)
    with pytest.raises(InputError, match=r"tokenizer\.json: expected .*, found: broken; put"):
        read_tokenizer(encoder)
    Raising.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        read_tokenizer(encoder)
