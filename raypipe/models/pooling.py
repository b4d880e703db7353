"""From the hidden states of an encoder's tokens to its embedding.

One vector per sequence, and what follows pooling: a cut to the first dimensions, and length 1.

Shapes: T tokens of a batch, H hidden, B sequences, R inputs of a pass of fixed shape at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import SPLADE_LOG
from raypipe.models.packed import Groups, Linear, Product, RunLayer, linear, moved_all, normed

_OF_STATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(dim=1),
    "cls": lambda states: states[:, 0],
    "max": lambda states: states.amax(dim=1),
    "last": lambda states: states[:, -1],
}
"""[B, L, H] -> [B, H]."""


def pool(hidden_TH: Tensor, groups: Groups, *, pooling: str) -> Tensor:
    """One vector per sequence, in order, fp32 [B, H], from all its tokens, special ones included.

    It is their mean, the largest value of each dimension, or the first or last token's state.
    """
    parts = []
    start = 0
    for count, length in groups:
        stop = start + count * length
        parts.append(_OF_STATES[pooling](hidden_TH[start:stop].view(count, length, -1)))
        start = stop
    return torch.cat(parts)


def pool_between(hidden_TH: Tensor, edges: Tensor, *, pooling: str) -> Tensor:
    """Like `pool`, [R, H], of the sequences that `edges`, int64 [R + 1], begin and end.

    An empty sequence has some vector, which nobody reads.
    """
    first, behind = edges[:-1], edges[1:]
    if pooling == "cls":
        return hidden_TH[first.clamp(max=len(hidden_TH) - 1)]
    if pooling == "last":
        return hidden_TH[(behind - 1).clamp(min=0)]
    lengths = torch.diff(edges)[:, None]
    if pooling == "max":
        found = torch.segment_reduce(hidden_TH, "max", offsets=edges, unsafe=True)
        return found.masked_fill(lengths == 0, 0)
    # One sum after the other for each number: an order that no other input changes.
    sums = torch.segment_reduce(hidden_TH, "sum", offsets=edges, initial=0, unsafe=True)
    return sums / lengths.clamp(min=1)


@dataclass(frozen=True, slots=True)
class Finishing:
    """Computes embeddings from pooled states, in fp32 whatever the model's precision."""

    truncate_dim: int | None = None
    """How many of the first dimensions are kept; None means all."""
    normalise: bool = False
    """Whether the embeddings have length 1; this is the last step."""
    pooling: str = "mean"
    """Pooling of the states, as `pool` takes it."""

    @property
    def linears(self) -> list[Linear]:
        """None: there are no products."""
        return []

    def dim(self, width: int) -> int:
        """Dimensions of the embeddings of a model whose states have `width`."""
        return width if self.truncate_dim is None else self.truncate_dim

    def to(self, device: str) -> Finishing:
        """The same: there are no weights."""
        return self

    def of_groups(self, hidden_TH: Tensor, groups: Groups) -> Tensor:
        """One embedding per sequence, fp32 [B, dim]; see `pool`."""
        return self.embeddings(pool(hidden_TH, groups, pooling=self.pooling))

    def between(self, hidden_TH: Tensor, edges: Tensor, *, product: Product) -> Tensor:
        """The same of the sequences between edges, fp32 [R, dim]; see `pool_between`."""
        return self.embeddings(pool_between(hidden_TH, edges, pooling=self.pooling))

    def embeddings(self, pooled_BH: Tensor) -> Tensor:
        """One embedding per pooled state, fp32 [B, dim]."""
        vectors = pooled_BH[:, : self.truncate_dim]
        return F.normalize(vectors, dim=1) if self.normalise else vectors


WORDS_AT_ONCE = 4096
"""Word pieces whose logits of all tokens are held at a time."""


@dataclass(frozen=True, slots=True)
class WordWeights:
    """Computes SPLADE's weight of each word piece from hidden states, in fp32.

    It is the largest value over the tokens of log(1 + relu(logit)). Source: Formal et al. 2021
    (SPLADE v2), as sentence-transformers' SpladePooling computes it.
    """

    transform: Linear
    norm: Linear
    eps: float
    words: tuple[Linear, ...]
    """The product with the embeddings of word pieces, in parts of WORDS_AT_ONCE."""
    log1p: bool = False
    """Whether a weight w becomes log(1 + w), as of splade-log1p."""

    @property
    def linears(self) -> Sequence[Linear]:
        """All products."""
        return [self.transform, *self.words]

    def dim(self, width: int) -> int:
        """The size of the vocabulary."""
        return sum(len(weight) for weight, _ in self.words)

    def to(self, device: str) -> WordWeights:
        """The weights on `cpu` or `cuda`."""
        return moved_all(self, device)

    def of_groups(
        self,
        hidden_TH: Tensor,
        groups: Groups,
        *,
        run: RunLayer = lambda layer, x: layer(x),
    ) -> Tensor:
        """The weights of each sequence's word pieces, fp32 [B, V].

        `run` calls what makes one part's logits and takes the largest: a training may compute that
        again in the backward pass, and not keep the logits of all tokens.
        """
        return self._weights(
            hidden_TH, lambda logits: pool(logits, groups, pooling="max"), linear, run
        )

    def between(self, hidden_TH: Tensor, edges: Tensor, *, product: Product) -> Tensor:
        """The same of the sequences between edges, fp32 [R, V]; see `pool_between`."""
        return self._weights(
            hidden_TH, lambda logits: pool_between(logits, edges, pooling="max"), product
        )

    def _weights(
        self,
        hidden_TH: Tensor,
        largest: Callable[[Tensor], Tensor],
        product: Product,
        run: RunLayer = lambda layer, x: layer(x),
    ) -> Tensor:
        widened = F.gelu(product(hidden_TH, self.transform))
        states = normed(widened, self.norm, self.eps)

        def part(words: Linear) -> Tensor:
            return run(lambda x: largest(product(x, words)), states)

        logits = torch.cat([part(words) for words in self.words], dim=1)
        weights = torch.log1p(F.relu(logits.float()))  # they are bf16 in a training in bf16
        return torch.log1p(weights) if self.log1p else weights


AnyFinishing = Finishing | WordWeights


def word_weights(
    masked_word_head: tuple[Linear, Linear, Linear], eps: float, pooling: str
) -> WordWeights:
    """A family's `word_head` as that of a splade model; no tensor is copied."""
    transform, norm, head = masked_word_head
    # split and no slices: the gradient of each slice would be a zero tensor of all words.
    words = zip(*(torch.split(each, WORDS_AT_ONCE) for each in head), strict=True)
    return WordWeights(transform, norm, eps, tuple(words), pooling == SPLADE_LOG)


def load_finishing(model: ModelFolder, weights: Mapping[str, Tensor]) -> AnyFinishing:
    """The steps after the last hidden states of an encoder with these weights.

    Raises:
        InputError: a splade model's decoder is not the table of word embeddings, which it is here.
    """
    own = model.encoder
    if own.is_sparse:
        heads = model.family.pretraining
        if problems := heads.untied(weights):
            raise InputError([f"{model.folder}: {problem}" for problem in problems])
        eps = model.family.files.as_bert(model.config())["layer_norm_eps"]
        return word_weights(heads.word_head(weights), float(eps), own.pooling)
    return Finishing(own.truncate_dim, own.normalise, own.pooling)
