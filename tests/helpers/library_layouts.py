"""Tiny random models in the layouts that people bring, saved by the libraries that open them."""

import json
import string

import numpy as np
import sentence_transformers as library
import torch
import transformers
from drawn_models import make
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import (
    LayerNorm,
    Pooling,
    StaticEmbedding,
    WordEmbeddings,
)
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling
from tiny_t5 import make_tiny_t5, unigram
from tokenizers import processors

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder, load_scorer
from raypipe.stages.tokenize import tokenized
from raypipe.text.inputs import TextSlice

PROMPTS = {"query": "query: ", "document": "passage: "}
IDENTITY = torch.nn.Identity
CHAT = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n{% endif %}"
    "{% if m.role == 'query' %}query: {{ m.content }}\n{% endif %}"
    "{% if m.role == 'document' %}passage: {{ m.content }}\n{% endif %}{% endfor %}rank a yes no"
)


def encoder(folder, kind, *after, pooling="mean", part=None, config=None, **settings):
    """A SentenceTransformer of this kind; modules `after` pooling are functions of the width."""
    make(folder / "start", kind, **(config or {}))
    first = Transformer(str(folder / "start"))
    width = first.get_embedding_dimension()
    modules = [first, Pooling(width, pooling), *(each(width) for each in after)]
    drawn = {"similarity_fn_name": "cosine"} if any(map(_normal, modules)) else {}
    model = library.SentenceTransformer(modules=modules, device="cpu", **drawn, **settings)
    return _saved(model, folder, part)


def splade(folder, kind, activation="relu"):
    make(folder / "start", kind, words=True)
    first = Transformer(str(folder / "start"), transformer_task="fill-mask")
    modules = [first, SpladePooling("max", activation)]
    return _saved(library.SparseEncoder(modules=modules, device="cpu"), folder)


def routed(folder):
    """A Router whose queries have the weights of a table."""
    make(folder / "start", "bert", words=True)
    first = Transformer(str(folder / "start"), transformer_task="fill-mask")
    weights = torch.rand(first.config.vocab_size, generator=torch.Generator().manual_seed(0))
    router = Router.for_query_document(
        query_modules=[SparseStaticEmbedding(tokenizer=first.tokenizer, weight=weights)],
        document_modules=[first, SpladePooling("max")],
    )
    return _saved(library.SparseEncoder(modules=[router], device="cpu"), folder)


def static(folder):
    torch.manual_seed(0)
    return _saved(
        library.SentenceTransformer(
            modules=[StaticEmbedding(unigram(), embedding_dim=16), Normalize()], device="cpu"
        ),
        folder,
    )


def words(folder):
    """Vectors of words, as of GloVe, and a tokenizer that is not of transformers."""
    known = ["lease", "shard", "driver", "rank", "zebra", "passage"]
    torch.manual_seed(0)
    table = WordEmbeddings(WhitespaceTokenizer(vocab=known), torch.randn(len(known), 16).numpy())
    return _saved(
        library.SentenceTransformer(modules=[table, Pooling(16, "mean")], device="cpu"), folder
    )


def routes(folder, *names):
    """A Router of tables, whose routes have names of their own."""
    torch.manual_seed(0)
    tables = {name: [StaticEmbedding(unigram(), embedding_dim=16)] for name in names}
    modules = [Router(tables, default_route=names[0]), Normalize()]
    return _saved(library.SentenceTransformer(modules=modules, device="cpu"), folder)


def sentence_t5(folder):
    """T5's encoder, Dense without bias, length 1."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=unigram(), pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        model_max_length=64,
    )  # fmt: skip
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    torch.manual_seed(0)
    transformers.T5EncoderModel(config).save_pretrained(folder / "start")
    tokenizer.save_pretrained(folder / "start")
    first = Transformer(str(folder / "start"))
    modules = [first, Pooling(32, "mean"), dense(8)(32), Normalize()]
    return _saved(library.SentenceTransformer(modules=modules, device="cpu"), folder)


def cross(folder, kind, config=None, **settings):
    make(folder / "start", kind, units=1, **(config or {}))
    model = library.CrossEncoder(str(folder / "start"), device="cpu", **settings)
    return _saved(model, folder)


def ettin(folder):
    """A head of modules over the states: Pooling, Dense, LayerNorm, Dense."""
    make(folder / "start", "modernbert")
    torch.manual_seed(1)
    modules = [
        Transformer(str(folder / "start")),
        Pooling(32, "cls"),
        Dense(32, 32, bias=False, activation_function=torch.nn.GELU()),
        LayerNorm(32),
        Dense(32, 1, activation_function=IDENTITY(), module_output_name="scores"),
    ]
    return _saved(library.CrossEncoder(modules=modules, device="cpu"), folder)


def decoder_reranker(folder, limit=64):
    """A decoder that answers yes or no after a chat template, as Qwen3-Reranker."""
    start = folder / "start"
    body = make(start, "qwen3")
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    tokenizer.chat_template, tokenizer.model_max_length = CHAT, limit
    tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()
    tokenizer.save_pretrained(start)
    torch.manual_seed(2)
    transformers.Qwen3ForCausalLM(body.config).save_pretrained(start)
    first = Transformer(str(start), transformer_task="text-generation")
    ids = [tokenizer.encode(word, add_special_tokens=False)[0] for word in ("y", "n")]
    modules = [first, LogitScore(true_token_id=ids[0], false_token_id=ids[1])]
    model = library.CrossEncoder(
        modules=modules, device="cpu", activation_fn=IDENTITY(), prompts={"web": "a line"},
        default_prompt_name="web",
    )  # fmt: skip
    return _saved(model, folder)


def mono_t5(folder):
    make_tiny_t5(folder / "model")
    return folder / "model"


def late(folder, kind="modernbert", kept=None, **settings):
    """The library's own: vectors of tokens, without those of punctuation in passages, or of the
    ids `kept` alone."""
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    make(folder / "start", kind)
    first = Transformer(str(folder / "start"), document_length=40, **settings)
    modules = [
        first,
        Dense(32, 16, bias=False, activation_function=IDENTITY(),
              module_input_name="token_embeddings", module_output_name="token_embeddings"),
        MultiVectorMask(skiplist_words=list(string.punctuation), keep_only_token_ids=kept),
        Normalize(module_input_name="token_embeddings"),
    ]  # fmt: skip
    model = library.MultiVectorEncoder(modules=modules, device="cpu", prompts=PROMPTS)
    return _saved(model, folder)


def pylate(folder):
    """A folder as PyLate 1 wrote it: [Transformer, Dense], markers and lengths beside them."""
    model = folder / "model"
    make(model, "bert")
    (model / "modules.json").write_text(
        json.dumps(
            [
                {
                    "idx": 0,
                    "name": "0",
                    "path": "",
                    "type": "sentence_transformers.models.Transformer",
                },
                {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
            ]
        )
    )
    (model / "1_Dense").mkdir()
    torch.manual_seed(3)
    save_file({"linear.weight": torch.randn(16, 32)}, model / "1_Dense" / "model.safetensors")
    body = {"in_features": 32, "out_features": 16, "bias": False}
    body |= {"activation_function": "torch.nn.modules.linear.Identity"}
    (model / "1_Dense" / "config.json").write_text(json.dumps(body))
    own = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] "}
    own |= {"query_length": 12, "document_length": 40, "attend_to_expansion_tokens": False}
    own |= {"do_query_expansion": True, "prompts": {}, "similarity_fn_name": "MaxSim"}
    own |= {"skiplist_words": [".", ","]}
    (model / "config_sentence_transformers.json").write_text(json.dumps(own))
    return model


def stanford(folder):
    """HF_ColBERT: the projection beside BERT's weights, and artifact.metadata."""
    model = folder / "model"
    make(model, "bert")
    tensors = {
        f"bert.{name}": value for name, value in load_file(model / "model.safetensors").items()
    }
    torch.manual_seed(4)
    tensors["linear.weight"] = torch.randn(16, 32)
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    own = {"query_maxlen": 12, "doc_maxlen": 40, "dim": 16, "mask_punctuation": True}
    own |= {"query_token_id": "[MASK]", "doc_token_id": "[CLS]", "attend_to_mask_tokens": False}
    (model / "artifact.metadata").write_text(json.dumps(own))
    return model


def dense(outer, activation=torch.nn.Tanh):
    return lambda width: Dense(width, outer, activation_function=activation())


def normal(width):
    return Normalize()


def _normal(module):
    return isinstance(module, Normalize)


def _saved(model, folder, part=None):
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    if part is not None:  # in several files of weights
        (folder / "model" / "model.safetensors").unlink()
        model[0].model.save_pretrained(folder / "model", max_shard_size=part)
    return folder / "model"


def encoded(folder, texts, side, **settings):
    model = resolve_model(str(folder), settings=settings or None)
    flat, offsets = tokenized(open_tokenizer(model), model, texts, side)
    return load_encoder(model, side=side).encode(flat, offsets, side=side)


def scored(folder, queries, passages, **settings):
    model = resolve_model(str(folder), settings=settings or None)
    parts = []
    for side, column in (("query", queries), ("passage", passages)):
        flat, offsets = tokenized(open_tokenizer(model), model, column, side)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
    return load_scorer(model).score(parts[0], parts[1:])
