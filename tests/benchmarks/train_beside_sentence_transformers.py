"""Training beside sentence-transformers' trainers: equal losses for 50 steps, then examples/s.

    python tests/benchmarks/train_beside_sentence_transformers.py NFCORPUS_FOLDER [STEPS]

Cross-entropy over pairs with CrossEncoderTrainer, and MultiLabelMargin over a batch's documents
with SentenceTransformerTrainer and a loss of ours there. Same start weights, the same examples in
the same order, no dropout, fp32, torch's AdamW settings, constant rate, no clipping; one thread.
Time is that of the training steps, text to updated weights, in rounds that alternate.
"""

import gzip
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.cross_encoder import (
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    losses,
)
from sentence_transformers.trainer import SentenceTransformerTrainer
from sentence_transformers.training_args import SentenceTransformerTrainingArguments
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import BertConfig, TrainerCallback

from raypipe.models.folder.model_folder import (
    layouts_of,
    load_weights,
    open_tokenizer,
    packaged_folder,
    resolve_model,
)
from raypipe.models.folder.settings import PRESETS
from raypipe.models.machine.device import numerics_class
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch
from raypipe.training.batch import Batch
from raypipe.training.comm import Comm
from raypipe.training.losses import Objective, multi_label_margin
from raypipe.training.start import starting_tensors
from raypipe.training.steps import Adam, backward
from raypipe.training.trainee import Trainee

BATCH, RATE, ROUNDS = 8, 2e-5, 3
OPTIMISER = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "bias_correction": True}


def examples_of(folder: Path, count: int) -> list[tuple[str, str, str]]:
    """(query, relevant passage, another) of training queries; texts of at most 30 words."""

    def lines(name):
        with gzip.open(folder / name, "rt") as stream:
            yield from stream

    def cut(text):
        return " ".join(text.split()[:30])

    passages = {}
    for line in lines("corpus.jsonl.gz"):
        row = json.loads(line)
        passages[row["_id"]] = cut(f"{row['title']} {row['text']}")
    queries = {row["_id"]: cut(row["text"]) for row in map(json.loads, lines("queries.jsonl.gz"))}
    rows = [line.split() for line in lines("qrels/train.tsv.gz")][1:]
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(rows), count, replace=False)
    others = rng.choice(list(passages), count)
    told = [(queries[rows[i][0]], passages[rows[i][1]]) for i in chosen]
    return [(*pair, passages[other]) for pair, other in zip(told, others, strict=True)]


class InOrder(BatchSampler):
    """Batches as the data stands."""

    def __init__(self, dataset, batch_size, drop_last, **ignored):
        super().__init__(SequentialSampler(dataset), batch_size, drop_last)


class Watch(TrainerCallback):
    """Every step's loss, and the time from the first step's begin to the last one's end."""

    def __init__(self):
        self.losses, self.began, self.seconds = [], None, 0.0

    def on_step_begin(self, args, state, control, **named):
        if self.began is None:
            self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **named):
        self.seconds = time.perf_counter() - self.began

    def on_log(self, args, state, control, logs=None, **named):
        if "loss" in logs:
            self.losses.append(logs["loss"])


def arguments(kind, folder, steps, batch):
    return kind(
        output_dir=str(folder / "theirs"),
        max_steps=steps,
        per_device_train_batch_size=batch,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=OPTIMISER["weight_decay"],
        adam_epsilon=OPTIMISER["eps"],
        max_grad_norm=0.0,
        logging_steps=1,
        logging_first_step=True,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        batch_sampler=InOrder,
        dataloader_num_workers=0,
        seed=0,
    )


def theirs_pairs(folder, examples, steps):
    model = CrossEncoder(str(folder / "pairs"), max_length=512, device="cpu")
    set_dropout(model)
    rows = [(q, p, label) for q, *both in examples for p, label in zip(both, (1, 0), strict=True)]
    columns = zip(*rows, strict=True)
    data = Dataset.from_dict(dict(zip(("query", "passage", "label"), columns, strict=True)))
    watch = Watch()
    trainer = CrossEncoderTrainer(
        model=model,
        args=arguments(CrossEncoderTrainingArguments, folder, steps, 2 * BATCH),
        train_dataset=data,
        loss=losses.CrossEntropyLoss(model),
        callbacks=[watch],
    )
    trainer.train()
    return watch


class MultiLabelMargin(torch.nn.Module):
    """RepBERT's loss over the batch's documents, which sentence-transformers does not have."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels=None):
        query, relevant, other = (self.model(f)["sentence_embedding"] for f in features)
        documents = torch.stack([relevant, other], dim=1).reshape(-1, query.shape[1])
        positive = torch.zeros(len(query), len(documents), dtype=torch.bool)
        positive[torch.arange(len(query)), 2 * torch.arange(len(query))] = True
        return multi_label_margin(query @ documents.T, positive).mean()


def theirs_encoder(folder, examples, steps):
    model = SentenceTransformer(str(packaged_folder()), device="cpu")
    model.max_seq_length = 256
    set_dropout(model)
    columns = zip(*examples, strict=True)
    data = Dataset.from_dict(dict(zip(("query", "relevant", "other"), columns, strict=True)))
    watch = Watch()
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments(SentenceTransformerTrainingArguments, folder, steps, BATCH),
        train_dataset=data,
        loss=MultiLabelMargin(model),
        callbacks=[watch],
    )
    trainer.train()
    return watch


def set_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0


class Own:
    """raypipe's steps over texts."""

    def __init__(self, preset, loss, folder=None):
        self.model = resolve_model(str(folder or "minilm"), preset)
        conventions = PRESETS[preset]
        tensors = starting_tensors(
            load_weights(self.model), self.model.config(), conventions, num_units=2, seed=0
        )
        self.trainee = Trainee(tensors, self.model.config(), conventions, dropout=0.0)
        self.optimiser = Adam(self.trainee.weights, **OPTIMISER)
        self.objective = Objective(loss)
        self.tokenizer = open_tokenizer(self.model)
        self.layouts = layouts_of(replace(self.model, conventions=conventions))

    def part(self, texts):
        flat, offsets = tokenize_batch(self.tokenizer, list(texts), max_pieces=512)
        return TextSlice(flat, offsets[:-1], np.diff(offsets))

    def train(self, examples, steps):
        """(losses, seconds); tokenizing is inside, as it is in the trainers' collator."""
        told, began = [], time.perf_counter()
        for step in range(steps):
            rows = examples[step * BATCH : (step + 1) * BATCH]
            positive = np.zeros((BATCH, 2 * BATCH), bool)
            positive[np.arange(BATCH), 2 * np.arange(BATCH)] = True
            passages = [text for row in rows for text in row[1:]]
            batch = Batch(self.part(row[0] for row in rows), self.part(passages), 2, positive, None)
            worked = backward(
                self.trainee,
                batch,
                self.objective,
                Comm(),
                self.layouts,
                budget_tokens=2048,
                weight=1.0,
                draw=(0, step),
            )
            weights = self.trainee.weights.values()
            grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
            self.optimiser.step(grads, rate=RATE, number=step + 1)
            for weight in weights:
                weight.grad = None
            told.append(worked.loss.item())
        return told, time.perf_counter() - began


def pairs_model(folder):
    """The packaged weights under a head of two units, as a cross-encoder folder."""
    source = packaged_folder()
    (folder / "pairs").mkdir()
    weights = {f"bert.{k}": v for k, v in load_file(source / "model.safetensors").items()}
    torch.manual_seed(0)
    weights |= {"classifier.weight": torch.randn(2, 384) * 0.02, "classifier.bias": torch.zeros(2)}
    save_file(weights, folder / "pairs" / "model.safetensors", metadata={"format": "pt"})
    config = BertConfig.from_pretrained(source)
    config.architectures, config.num_labels = ["BertForSequenceClassification"], 2
    config.save_pretrained(folder / "pairs")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (source / name).exists():
            (folder / "pairs" / name).write_bytes((source / name).read_bytes())


def main():
    data, steps = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50
    torch.set_num_threads(1)
    examples = examples_of(data, steps * BATCH)
    print(f"{numerics_class('cpu')}; {steps} steps of {BATCH} examples of two passages")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs_model(folder)
        ways = {
            "cross-entropy": (
                lambda: Own("monobert-longest-first", "cross-entropy", folder / "pairs"),
                lambda: theirs_pairs(folder, examples, steps),
            ),
            "multi-label-margin": (
                lambda: Own("minilm", "multi-label-margin"),
                lambda: theirs_encoder(folder, examples, steps),
            ),
        }
        for loss, (own, theirs) in ways.items():
            ratios, rates = [], []
            for round_ in range(ROUNDS):
                runs = {}
                order = ("own", "theirs") if round_ % 2 == 0 else ("theirs", "own")
                for who in order:
                    if who == "own":
                        runs[who] = own().train(examples, steps)
                    else:
                        watch = theirs()
                        runs[who] = (watch.losses, watch.seconds)
                pairs = zip(runs["own"][0], runs["theirs"][0], strict=True)
                worst = max(abs(a - b) for a, b in pairs)
                assert worst < 1e-4, f"{loss}: losses differ by {worst}"
                ratios.append(runs["theirs"][1] / runs["own"][1])
                rates.append([steps * BATCH / runs[who][1] for who in ("own", "theirs")])
            own_rate, their_rate = np.median(rates, axis=0)
            print(
                f"{loss}: largest difference of losses {worst:.1e}; examples/s {own_rate:.1f} "
                f"against {their_rate:.1f}; paired ratio {np.median(ratios):.2f} "
                f"({', '.join(f'{r:.2f}' for r in ratios)})"
            )


if __name__ == "__main__":
    main()
