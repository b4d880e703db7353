"""Tokenizers by BERT's rules, with a vocabulary in which nearly every character has a piece."""

from functools import cache

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ASTRAL = "\U0001f993\U0001d400\U00020000\U0001e900\U0001d165"


@cache
def vocabulary():
    """Pieces of one character, at a word's begin and within; a word lost is seen in the ids."""
    characters = [chr(code) for code in [*range(0x21, 0x2000), *range(0x3000, 0x3100)]]
    characters += [*"\u4e2d\u6587\uac00\uff21\uff41\ufb01\u212b\u2126\ufffd", *ASTRAL]
    words = ["the", "##ing", "lease", "The", "caf\u00e9", "cafe"]
    pieces = [*SPECIALS, *words, *characters, *(f"##{one}" for one in characters)]
    return {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}


def made(*, added=(), special=True, longest=100, **settings):
    """A tokenizer; `settings` are the normaliser's, `added` further added tokens."""
    model = WordPiece(vocabulary(), unk_token="[UNK]", max_input_chars_per_word=longest)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(**settings)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    if special:
        tokenizer.add_special_tokens(SPECIALS)
    tokenizer.add_tokens([*added])
    return tokenizer


def token(content, **settings):
    """An added token that is looked for in the text as it is."""
    return AddedToken(content, **{"normalized": False, **settings})


def own_pieces(tokenizer, texts, max_pieces):
    """What the tokenizer itself gives for each text."""
    found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [encoding.ids[:max_pieces] for encoding in found]
