"""The texts and pairs of a proof: what tokenizers are known to differ about, and every length."""

import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from raypipe.text.tokenize import encoded

PLAIN = "how is the stone bridge over the river built"
VALUED = (
    PLAIN,
    "",
    "  \t\n ",
    "NASA and UNESCO Met In The North OF Paris",
    "Café crème à l'Élysée, naïve Ünïcödé e\u0301cole",
    "今日は雨が降っています。北京大学的图书馆",
    "안녕하세요 세계 Привет мир مرحبا नमस्ते สวัสดี ΟΔΟΣ",
    "don't I'm 3.14-16, $5 (a/b) \u201ccurly\u201d \u2014 'quoted' http://x.y/z?q=1#a",
    " leading,  two   blanks\tand\na line\u00a0no-break\u3000wide ",
    "emoji 🙂👍🏽 ﬁne ＡＢＣ１２３ ² ½ ™",
    "[CLS] one [SEP] two [MASK] three [UNK] [PAD] four",
    "<s> one </s> two <mask> three <unk> <pad> four",
    "x" * 130,
    "a\u0000b\u0007c\u200bd\u200ee\ufefff\ufffdg",
)
"""Texts of which values are compared too."""
OTHERS = (
    "river",
    "River",
    "RIVER",
    "river.",
    "the river of the mill. The River Of The Mill. THE RIVER OF THE MILL.",
    "Straße İstanbul ŒUVRE œuvre Ångström ﬀ ǅ ſ ς Σ",
    "e\u0301 é E\u0301 É o\u0308 ö ñ n\u0303 ç c\u0327",
    "雨",
    "トウキョウ ﾄｳｷｮｳ ひらがな カタカナ 漢字かな交じり文。",
    "a雨b 雨a 1雨2",
    "x" * 99 + " " + "y" * 100 + " " + "z" * 101,
    "a" * 30 + "." + "b" * 30,
    ".",
    "...!!!???",
    "a.b,c;d:e!f?g",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "1 12 123 1234 12345 1,234.56 1e-9 0x1F",
    "can't won't they're I'd it's we've '90s",
    "a\r\nb\rc\nd\u2028e\u2029f\u0085g\u000bh\u000ci",
    "\u00adsoft\u00ad hyphen\u2010\u2011\u2013\u2014\u2212",
    "\ud7ff\ue000\U0010fffd",
    "[ SEP ] [sep] [Sep] [SEP][SEP]a[SEP]",
    "<PAD> <S> < s > </s></s>a</s>",
    " <mask>  [MASK] ",
    "▁under ▁ _ Ġ Ċ ##s ##",
    "𝒜𝓁𝓅𝒽𝒶 Ⅷ ㎏ ﷺ ĳ ŉ",
    "मानक हिन्दी क्षि ไทย العَرَبِيَّة עִבְרִית",
)
LONG = (
    "where the old mill stands by the river north of the bridge a baker reads the letter that "
    "the keeper of the light house wrote in winter about honey wax rope and the price of flour "
)
ADDED_TOKENS = 24
OWN_WORDS = 240
"""Words of the model's own vocabulary, from all over it."""
WORDS_A_TEXT = 12
RARE_A_TEXT = 16
NO_TEXT = ("Cn", "Co", "Cs")
"""Categories of Unicode of which no text has a character: none assigned, private, surrogates."""
LETTERS_A_SAMPLE = 16
"""Of the letters without case, such as ideographs, each sixteenth is taken."""


class ProofTexts(NamedTuple):
    """The texts of one side of a model, in two parts."""

    valued: Sequence[str]
    """Of which values are compared, short ones, as are those of `full`."""
    full: Sequence[str]
    """Longer than the limit, and of exactly so many pieces."""
    others: Sequence[str]
    """Of which only the inputs are compared."""


def texts_of(tokenizer: Tokenizer, limit: int, added: Sequence[str] = ()) -> ProofTexts:
    """The texts for a model with this tokenizer, of whose texts `limit` pieces are read.

    `added` are tokens that the model's library adds to those of its tokenizer.
    """
    own_added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    tokens = islice(dict.fromkeys([*added, *own_added]), ADDED_TOKENS)
    among = [f"one {token} two{token}three {token.lower()}" for token in tokens]
    own = _own_words(tokenizer)
    groups = [own[i : i + WORDS_A_TEXT] for i in range(0, len(own), WORDS_A_TEXT)]
    lines = [" ".join(group) for group in groups]
    shaped = [shape(line) for line in lines for shape in (str.upper, str.title, _accented)]
    joined = ["".join(group) for group in groups]
    first, *others = [*lines, *shaped, *joined] or [""]
    word = _single(tokenizer)
    exact = [" ".join([word] * number) for number in (limit - 1, limit, limit + 1) if number > 0]
    numbered = " ".join(f"{LONG}{place}" for place in range(1 + limit // 16))
    return ProofTexts(
        (*VALUED, first, *among[:1]), (numbered,), (*OTHERS, *others, *among[1:], *exact, LONG)
    )


def rare_differences(
    tokenizer: Tokenizer, of_library: Any, rare: Sequence[str]
) -> Iterator[tuple[str, list[int], list[int]]]:
    """(text, the library's ids, the tokenizer's) of those of `rare_parts` that differ.

    Both are asked directly: texts of all that would be cut at a limit.
    """
    parts = [f"a{part}b {part}" for part in rare]
    texts = [" ".join(parts[i : i + RARE_A_TEXT]) for i in range(0, len(parts), RARE_A_TEXT)]
    for place, theirs, made in _differing(tokenizer, of_library, texts):
        group = parts[place * RARE_A_TEXT :][:RARE_A_TEXT]
        alone = [(group[i], a, b) for i, a, b in _differing(tokenizer, of_library, group)]
        yield from alone or [(texts[place], theirs, made)]


def _differing(
    tokenizer: Tokenizer, of_library: Any, texts: list[str]
) -> Iterator[tuple[int, list[int], list[int]]]:
    theirs = of_library(texts, add_special_tokens=False)["input_ids"]
    for place, each in enumerate(encoded(tokenizer, texts)):
        if each.ids != theirs[place]:
            yield place, theirs[place], each.ids


def rare_parts(tokenizer: Tokenizer) -> list[str]:
    """The parts of texts that the other texts may lack, and that tokenizers may differ about.

    Every character of Unicode, of ideographs some, and every string that the rules name.
    """
    body = json.loads(tokenizer.to_str())
    named = [each for rule in ("normalizer", "pre_tokenizer") for each in _patterns(body[rule])]
    return list(dict.fromkeys([*_characters(), *named]))


@cache
def _characters() -> tuple[str, ...]:
    """Every character of Unicode but most ideographs; a quarter of a second for all models."""
    return tuple(
        chr(number)
        for number in range(sys.maxunicode + 1)
        if (kind := unicodedata.category(chr(number))) not in NO_TEXT
        and (kind != "Lo" or number % LETTERS_A_SAMPLE == 0)
    )


def _patterns(rule: Any) -> Iterator[str]:
    """The strings that a rule looks for, of a regular expression the words and signs in it."""
    if isinstance(rule, list):
        for each in rule:
            yield from _patterns(each)
    elif isinstance(rule, dict):
        yield from [rule["String"]] if "String" in rule else []
        yield from re.findall(r"\w+|[^\w\s]", rule.get("Regex", ""))
        yield from _patterns(list(rule.values()))


def pairs_of(
    query: ProofTexts, passage: ProofTexts, num_passages: int
) -> tuple[list[tuple[str, ...]], ...]:
    """(short inputs of values, full ones, those of which only the inputs are compared).

    An input is a query and its passage, or two: each case of a text in each place.
    """

    def beside(texts: Sequence[str], others: Sequence[str]) -> list[tuple[str, ...]]:
        step = max(1, len(others) // 2)
        size = len(others)
        return [
            (text, *(others[(i + step * n + 1) % size] for n in range(num_passages)))
            for i, text in enumerate(texts)
        ]

    whole, full = (passage.full[0],) * num_passages, query.full[0]
    middles = [*query.others[-4:], LONG]
    cut = [(one, *(two,) * num_passages) for one in middles for two in (*passage.others[-4:], LONG)]
    cut += [(full, *(text,) * num_passages) for text in passage.others[-4:]]
    cut += [(text, *whole) for text in query.others[-4:]]
    return (
        beside(query.valued, passage.valued),
        [(full, *whole), (PLAIN, *whole), (full, *(PLAIN,) * num_passages)],
        [*beside(query.others, passage.others), *beside(query.others, passage.valued), *cut],
    )


def _own_words(tokenizer: Tokenizer) -> list[str]:
    """Words of the vocabulary, evenly spaced by their ids, without marks of where a word begins."""
    ids = sorted(tokenizer.get_vocab(with_added_tokens=False).values())
    step = max(1, len(ids) // OWN_WORDS)
    tokens = [str(tokenizer.id_to_token(number)) for number in ids[::step]]
    words = [token.removeprefix("##").strip("\u2581\u0120") for token in tokens]
    return [word for word in words if word]


def _accented(text: str) -> str:
    return text.replace("e", "é").replace("a", "á").replace("o", "o\u0308")


def _single(tokenizer: Tokenizer) -> str:
    """A word that is one piece, also in a row of them; the first candidate if there is none."""
    words = [LONG.split()[0], *LONG.split(), *map(chr, range(97, 123))]
    for word in words:
        if len(encoded(tokenizer, [" ".join([word] * 5)])[0].ids) == 5:
            return word
    return words[0]
