import pytest

from raypipe.models.folder.evidence import Evidence, check_tokenizer, read_json


def post_processed(folder, single, pair):
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    made = Tokenizer(
        WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}, unk_token="[UNK]")
    )
    made.pre_tokenizer = Whitespace()
    if single is not None:
        specials = [("[CLS]", 1), ("[SEP]", 2)]
        made.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=specials)
    made.enable_truncation(1)
    made.enable_padding(length=9)
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    return folder


GOOD = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")


@pytest.mark.parametrize(
    ("single", "pair", "alone", "together"),
    [
        (*GOOD, True, True),
        (None, None, True, True),
        (GOOD[0], "[CLS] $A [SEP] $B:1 [SEP]:0", True, False),
        (GOOD[0], "[CLS] $A [SEP] $B:0 [SEP]:0", True, False),
        (GOOD[0], "[CLS] $A [SEP] [SEP] $B:1 [SEP]:1", True, False),
        ("$A [SEP]", GOOD[1], False, True),
        ("[CLS]:1 $A:1 [SEP]:1", GOOD[1], False, True),
    ],
)
def test_only_berts_own_inputs_are_taken(tmp_path, single, pair, alone, together):
    folder = post_processed(tmp_path / "t", single, pair)
    for as_pair, good in ((False, alone), (True, together)):
        found = Evidence()
        check_tokenizer(folder, found, pair=as_pair)
        assert (found.refusals == []) is good
    check_tokenizer(tmp_path, found := Evidence(), pair=True)
    assert found.refusals == [] and read_json(tmp_path / "none") is None
