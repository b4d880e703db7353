"""Whether inputs sliced from word pieces are those that the tokenizer itself would make."""

from collections.abc import Sequence

from tokenizers import Tokenizer


def first_difference(
    tokenizer: Tokenizer, texts: Sequence[str], *, pairs: bool = False
) -> str | None:
    """The first text (of pairs, the first two) whose sliced input differs; None where none does.

    Compared are the ids of [CLS] text [SEP], and with `pairs` ids and segments 0 and 1 of
    [CLS] text [SEP] next text [SEP]. A tokenizer without a post-processor makes no inputs of its
    own to compare with.
    """
    if tokenizer.post_processor is None or not texts:
        return None
    cls_id, sep_id = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    plain = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    whole = tokenizer.encode_batch_fast(texts, add_special_tokens=True)
    for text, pieces, own in zip(texts, plain, whole, strict=True):
        if [cls_id, *pieces, sep_id] != own.ids:
            return text
    if not pairs:
        return None
    following = [*texts[1:], texts[0]]
    after = [*plain[1:], plain[0]]
    both = tokenizer.encode_batch_fast(list(zip(texts, following, strict=True)))
    for text, first, second, own in zip(texts, plain, after, both, strict=True):
        ids = [cls_id, *first, sep_id, *second, sep_id]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        if ids != own.ids or segments != own.type_ids:
            return text
    return None
