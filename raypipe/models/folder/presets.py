"""Settings by preset name, or from raypipe.json beside the weights."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.folder.conventions import (
    DOCUMENTED,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
    settings_problems,
)
from raypipe.models.folder.evidence import read_object

_MONO = PairConventions(
    kind="mono",
    query_limit=64,
    passage_limit=None,
    total_limit=512,
    relevant_label=1,
    score="log-probability",
)
_DUO = PairConventions(
    kind="duo",
    query_limit=62,
    passage_limit=223,
    total_limit=512,
    relevant_label=1,
    score="probability",
)
_MONO_T5 = replace(
    _MONO,
    query_limit=256,
    prompt="Query: {query} Document: {passage} Relevant:",
    answers=("false", "true"),
)
PRESETS: dict[str, AnyConventions] = {
    # Zhan et al. 2020 and its code: limits without special tokens, passages in segment 1.
    "repbert": Conventions(
        pooling="mean",
        normalise=False,
        query_segment=0,
        passage_segment=1,
        query_limit=20,
        passage_limit=256,
        start_weights_saw="MS MARCO passages (RepBERT's own training)",
    ),
    # all-MiniLM-L6-v2: 256 tokens with special tokens, for queries and passages.
    "minilm": Conventions(
        pooling="mean",
        normalise=True,
        query_segment=0,
        passage_segment=0,
        query_limit=254,
        passage_limit=254,
        start_weights_saw="1B pairs, MS MARCO, S2ORC and Simple Wikipedia among them",
    ),
    # Nogueira & Cho 2019, section 2.2: query 64 tokens, the whole input 512.
    "monobert": _MONO,
    # dl4marco-bert: the query's 64 include [CLS] and [SEP], the whole input has at most 511; it and
    # duobert share one tokenization.py, of BERT's first release.
    "monobert-reference": replace(_MONO, query_limit=62, total_limit=511, first_tokenizer=True),
    # pygaggle: no limit for the query, 512 in all, the longer of the two is cut first. Its slow
    # tokenizer gives an odd piece to the query, where both are cut; here the longer one gets it.
    "monobert-longest-first": replace(_MONO, query_limit=None),
    # Nogueira et al. 2019, section 3.3: 62, 223 and 223 pieces.
    "duobert": _DUO,
    # duobert: the query's 64 include [CLS] and [SEP]; passages share what is left of 510.
    "duobert-reference": replace(_DUO, passage_limit=None, total_limit=510, first_tokenizer=True),
    # Nogueira et al. 2020, section 3: the prompt, and the softmax over two words; pygaggle: 512
    # tokens. It has no limit of the query, and cuts the end of the prompt. Here the passage is cut,
    # as in pyterrier_t5, and the query has at most half.
    "monot5": _MONO_T5,
    # Bonifacio et al. 2021: the same, but mMARCO's mT5-base models answer with other words.
    "monot5-mmarco": replace(_MONO_T5, answers=("no", "yes")),
    # Pradeep et al. 2021, section 3.3: the prompt; pygaggle: 512 tokens, without other limits. Here
    # the query has at most a quarter, and the passages share what is left.
    "duot5": replace(
        _DUO,
        query_limit=128,
        passage_limit=None,
        prompt="Query: {query} Document0: {passage_0} Document1: {passage_1} Relevant:",
        answers=("false", "true"),
    ),
    # Devlin et al. 2019, appendix A.2: 512 tokens.
    "bert": PretrainedConventions(total_limit=512),
}


KINDS: dict[str, type[AnyConventions]] = {
    "encoder": Conventions,
    "mono": PairConventions,
    "duo": PairConventions,
    "pretrained": PretrainedConventions,
}
"""The class of each kind's settings."""
SETTINGS = "models.NAME.settings of the recipe"
LIKE_CONTRIEVER = (
    '{"kind": "encoder", "pooling": "mean", "normalise": false, "query_segment": 0, '
    '"passage_segment": 0, "query_limit": 254, "passage_limit": 254}'
)


def conventions_of(
    folder: Path, preset: str | None, *, settings: Mapping[str, Any] | None = None
) -> AnyConventions:
    """The settings of the named preset, or of `raypipe.json` beside the weights.

    `settings`, those of a recipe, override both.

    Raises:
        InputError: neither exists, the preset is unknown, or the file has wrong fields.
    """
    if preset is not None:
        if preset not in PRESETS:
            near = get_close_matches(preset, PRESETS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"preset {preset!r}: expected one of {', '.join(PRESETS)}{hint}")
        found = PRESETS[preset]
        return conventions_from({**asdict(found), **settings}, SETTINGS) if settings else found
    path = folder / "raypipe.json"
    if not path.exists() and not settings:
        raise InputError(
            f"{folder}: nothing says which settings this model has (pooling, segments, limits). "
            f"Name a preset ({', '.join(PRESETS)}) or put a raypipe.json beside the weights, for "
            f"an encoder such as Contriever {LIKE_CONTRIEVER}; {DOCUMENTED}"
        )
    where = f"{path} and {SETTINGS}" if settings else str(path)
    return conventions_from({**read_object(path), **(settings or {})}, where)


def conventions_from(body: Mapping[str, Any], where: str) -> AnyConventions:
    """The settings in the body of a raypipe.json; `where` begins each problem.

    Raises:
        InputError: keys that are missing, unknown or wrong.
    """
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        found = "nothing" if "kind" not in body else repr(kind)
        raise InputError(
            f"{where}: kind: expected encoder, mono, duo or pretrained, found {found}; {DOCUMENTED}"
        )
    kinds = KINDS[kind]
    # These keys (how the weights were made, an adapter's base model) are not settings.
    record = {"made_by", "base"}
    given = {name: value for name, value in body.items() if name not in record}
    problems = settings_problems(kinds, given)
    if problems:
        raise InputError([f"{where}: {problem}" for problem in problems])
    return kinds(**given)
