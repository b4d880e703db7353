"""The fingerprints of all stores that the packaged recipes resolve to, against a table.

    PYTHONPATH=tests/helpers python tests/test_fingerprints.py --write

The inputs are made-up small files, and models whose weights are zeros. Stores of texts are really
computed, those of models, indexes and whatever reads them are made up: a fingerprint knows other
stores by their names and fingerprints alone. The table is written anew where a change is meant.
"""

import gzip
import json
import re
import sys
import tempfile
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import car_files
import numpy as np
import pytest
import yaml
from packaged_recipes import ENV
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from raypipe.cluster.worker import InlineBackend
from raypipe.config.load import load_recipe, load_training, recipe_names, recipe_text, verb_of
from raypipe.config.paths import SNAPSHOT, places_of, relocated
from raypipe.config.phases import trainings_of
from raypipe.driver.devices import Devices
from raypipe.driver.execute import Execution, Watcher
from raypipe.driver.inputs import with_local_files
from raypipe.driver.models import open_models
from raypipe.driver.place import LazyBackends, WorkPlace
from raypipe.driver.recipe.graph import graph_at
from raypipe.driver.training import sets as training_stores
from raypipe.driver.training.phases import in_phases
from raypipe.driver.training.place import TrainInvocation, start_model
from raypipe.driver.workspace import Workspace
from raypipe.kinds.encode import Encode
from raypipe.kinds.score import DuoScore
from raypipe.markdown import Text
from raypipe.models.folder import model_folder, modules
from raypipe.names import Role
from raypipe.stages.stage import Sizing
from raypipe.storage.records import Manifest, Record, Shard, digest
from raypipe.storage.store import Stored
from raypipe.training.job import Job

TABLE = Path(__file__).parent / "fingerprints.txt"
GOLDEN = Path(__file__).parent / "tools" / "golden"
CPU = Devices("cpu", 0, "", 0, 1, 1, "none", "fp32")
IDS = {
    "msmarco-v1": [str(number) for number in range(16)],
    "msmarco-v2": [f"msmarco_passage_00_{number}" for number in range(16)],
    "msmarco-doc-v2": [f"msmarco_doc_00_{number}" for number in range(16)],
    "trec-car": [f"{number:040x}" for number in range(16)],
    "beir": [f"b{number}" for number in range(16)],
    "jsonl": [f"j{number}" for number in range(16)],
}
NOT_COMPUTED = {"index", "impact-index", "encode", "score", "rerank", "pairs", "aggregate"}
"""Kinds of stages that need Java, or a model or its scores."""
ROWS = 100
"""Of a store that is not computed."""
PAYLOADS = {
    "tune": {"grid": [{"k1": 0.9, "b": 0.4}]},
    "ann-recall": {"queries": 1, "recall": {}},
}
"""Of stores that are read while later ones are planned, by kind of stage."""
SHORT = ("without_negatives", "beyond_runs", "without_teacher", "negatives_without_teacher")
EXAMPLES = {
    "examples": ROWS,
    "passages": 2,
    "queries": ROWS,
    "dropped": {},
    "samples": [],
    "short": {**dict.fromkeys(SHORT, 0), "filtered": 0},
}


@dataclass
class Planned:
    """Stores by name: those of texts computed, the others without payloads."""

    execution: Execution
    fingerprints: dict[str, str] = field(default_factory=dict)
    _without_payload: set[str] = field(default_factory=set)

    @property
    def workspace(self):
        return self.execution.workspace

    def on_change(self, line):
        """Nothing is told."""

    def part(self, folder):
        return self

    def fixed(self, name):
        return None

    def find(self, name, spec):
        return None

    def ensure(self, name, stage):
        spec = stage.spec
        # A count knows its files by the times of their last change.
        steady = replace(spec, inputs={}) if name.role is Role.COUNT else spec
        self.fingerprints[str(name)] = steady.fingerprint()
        if spec.stage not in NOT_COMPUTED and self._without_payload.isdisjoint(
            spec.origins.values()
        ):
            return self.execution.ensure(name, stage)
        payload = json.dumps(PAYLOADS.get(spec.stage, {})).encode()
        storage, sha256 = self.execution.workspace.stores, digest(payload)
        file = storage.scratch() / "payload"
        file.write_bytes(payload)
        storage.put(sha256, file)
        facts = EXAMPLES if name.role is Role.EXAMPLES else {}
        record = Record(Shard(0, 0, ROWS), sha256, len(payload), facts)
        stored = Stored(storage, Manifest(str(name), spec.fingerprint(), (record,), ()))
        self._without_payload.add(stored.origin)
        return stored


def of_pipeline(text, name, folder):
    """The fingerprint of each store of a pipeline, by the store's name."""
    body = yaml.safe_load(text)
    if body["collection"]["format"] == "python-docs":  # it is made of what is installed here
        body["collection"] = {"format": "msmarco-v1", "input": str(folder / "docs/collection.tsv")}
        for query_set, queries in body["queries"].items():
            files = {"file": f"{folder}/docs/queries.{query_set}.tsv"}
            files["qrels"] = f"{folder}/docs/qrels.{query_set}.txt"
            queries.pop("builtin")
            queries |= files
        text = yaml.safe_dump(body, sort_keys=False)
    recipe = load_recipe(text, env=variables(folder), source=name)
    if recipe.collection.snapshots:  # of any of them the stores are alike
        whole = recipe.collection.model_copy(update={"snapshots": ()})
        recipe = recipe.model_copy(update={"collection": whole})
        recipe = relocated(recipe, lambda place: place.replace(SNAPSHOT, "first"))
    write_inputs(places_of(recipe), lambda key: recipe.collection.format)
    for stage in recipe.stages.values():
        if isinstance(stage, Encode | DuoScore) or hasattr(stage, "k0"):
            kind = (
                "encoder"
                if isinstance(stage, Encode)
                else "mono"
                if hasattr(stage, "k0")
                else "duo"
            )
            model = recipe.models[stage.model]
            write_model(Path(model.path), kind, with_settings=model.preset is None)
    recipe = recipe.model_copy(
        update={"resources": recipe.resources.model_copy(update={"precision": CPU.precision})}
    )
    workspace = Workspace(folder / "work" / name, str(folder / "stores"))
    recipe, sources = with_local_files(recipe, workspace)
    stores = Planned(execution(workspace))
    models = open_models(recipe, list(recipe.stages))
    graph_at(recipe, stores, CPU, sources, models).systems([*recipe.stages])
    return stores.fingerprints


def execution(workspace):
    backends = LazyBackends(InlineBackend, 1)
    return Execution(
        workspace=workspace, backends=backends, sizing=Sizing(), watcher=Watcher(), reuse=False
    )


def variables(folder):
    return {name: str(folder / name.lower()) for name in [*ENV, "GOLDEN"]}


def write_inputs(places, format_of):
    """A small file for each place of a recipe, by its key; models are not written here."""
    for key, place in places.items():
        path, last = Path(place), key.split(".")[-1]
        if path.exists():
            continue
        parts = key.split(".")
        form = format_of(key)
        ids = IDS[form]
        data = None
        if "input" in parts:
            data = collection(form, ids)
        elif last in ("file", "queries"):
            # No query is a near copy of one of another file, which guards would leave out.
            names = [f"{path.parent.name}/{path.name}/{n}" for n in range(4)]
            texts = [digest(name.encode())[:24] for name in names]
            data = "".join(f"{n}\t{text}\n" for n, text in enumerate(texts))
            if "beir" in place or path.name.startswith("queries.jsonl"):
                data = lines_of([{"_id": str(n), "text": text} for n, text in enumerate(texts)])
        elif key.startswith("queries.") and parts[2] == "car":
            data = "".join(f"enwiki:Page/{n} 0 {ids[n]} 1\n" for n in range(4))
            if parts[3] != "qrels":
                data = pages(ids)
        elif last.endswith("qrels"):
            first = 0 if "train" in path.name else 4 if "dev" in path.name else 8
            judged = list(enumerate(ids[first : first + 4]))
            data = "".join(f"{n} 0 {each} 1\n" for n, each in judged)
            if "beir" in place:
                lines = [f"{n}\t{each}\t1\n" for n, each in judged]
                data = "".join(["query-id\tcorpus-id\tscore\n", *lines])
        elif "runs" in parts or last in ("run", "teacher"):
            data = "".join(
                f"{n} Q0 {each} {rank} {-rank} made-up\n"
                for n in range(4)
                for rank, each in enumerate(ids, 1)
            )
        elif last == "triples":
            data = "".join(f"{n}\t{ids[n]}\t{ids[n + 1]}\n" for n in range(4))
        elif last == "texts":
            data = "".join(f"query {n}\tzebra {n}\trun {n}\n" for n in range(4))
        elif last in ("path", "start", "stores"):
            continue
        assert data is not None, key
        if isinstance(data, dict) and path.suffix:
            (data,) = data.values()
        if isinstance(data, dict):
            for name, text in data.items():
                write(path / name, text)
        else:
            write(path, data)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def collection(form, ids):
    """The bytes of a file of passages or documents, or the files of a folder."""
    texts = [f"zebra passage {number} of rank and file" for number in range(len(ids))]
    pairs = list(zip(ids, texts, strict=True))
    match form:
        case "msmarco-v1":
            return "".join(f"{each}\t{text}\n" for each, text in pairs)
        case "msmarco-v2":
            rows = [{"pid": each, "passage": text} for each, text in pairs]
            return {"msmarco_passage_00.gz": lines_of(rows)}
        case "msmarco-doc-v2":
            rows = [
                {"docid": each, "url": "", "title": "", "headings": "", "body": f"{text}. " * 30}
                for each, text in pairs
            ]
            return {"msmarco_doc_00.gz": lines_of(rows)}
        case "jsonl":
            rows = [{"id": each, "title": "of", "abstract": text} for each, text in pairs]
            return {"papers.jsonl": lines_of(rows)}
        case "beir":
            return {
                "corpus.jsonl": lines_of(
                    [{"_id": each, "title": "", "text": text} for each, text in pairs]
                )
            }
        case "trec-car":
            return b"".join(
                car_files.paragraph(each, car_files.words(text)) for each, text in pairs
            )


def pages(ids):
    """A page of TREC CAR with a section for each of the first four passages."""
    sections = [car_files.section(f"{number}", car_files.under(ids[number])) for number in range(4)]
    return car_files.page("enwiki:Page", *sections)


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_model(folder, kind, *, with_settings):
    """A BERT of one layer whose weights are zeros; the same bytes with any release of a library."""
    if folder.exists() or not folder.is_absolute():
        return
    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "zebra", "query", "passage", "of"]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "intermediate_size": 4}
    config = {
        "model_type": "bert",
        "architectures": ["BertModel" if kind == "encoder" else "BertForSequenceClassification"],
        "vocab_size": len(words),
        "num_attention_heads": 1,
        "max_position_embeddings": 512,
        "type_vocab_size": 3 if kind == "duo" else 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        **sizes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    units = 1 if with_settings and kind == "mono" else 2
    save_file(zeros(config, kind, units), folder / "model.safetensors")
    if with_settings:
        settings = {**SETTINGS[kind], "start_weights_saw": "nothing"}
        (folder / "raypipe.json").write_text(json.dumps(settings))


SETTINGS = {
    "encoder": {
        "kind": "encoder", "pooling": "mean", "normalise": False, "query_segment": 0,
        "passage_segment": 1, "query_limit": 20, "passage_limit": 62,
    },
    "mono": {
        "kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64,
        "relevant_label": None, "score": "log-probability",
    },
    "duo": {
        "kind": "duo", "query_limit": 12, "passage_limit": 24, "total_limit": 64,
        "relevant_label": 1, "score": "probability",
    },
}  # fmt: skip


def zeros(config, kind, units):
    """The tensors of a BERT by name, all zeros."""
    wide, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], wide),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], wide),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], wide),
        "embeddings.LayerNorm.weight": (wide,),
        "embeddings.LayerNorm.bias": (wide,),
        "pooler.dense.weight": (wide, wide),
        "pooler.dense.bias": (wide,),
    }
    linear = {
        "attention.self.query": (wide, wide),
        "attention.self.key": (wide, wide),
        "attention.self.value": (wide, wide),
        "attention.output.dense": (wide, wide),
        "intermediate.dense": (inner, wide),
        "output.dense": (wide, inner),
    }
    for name, shape in linear.items():
        shapes[f"encoder.layer.0.{name}.weight"] = shape
        shapes[f"encoder.layer.0.{name}.bias"] = shape[:1]
    for name in ("attention.output", "output"):
        shapes[f"encoder.layer.0.{name}.LayerNorm.weight"] = (wide,)
        shapes[f"encoder.layer.0.{name}.LayerNorm.bias"] = (wide,)
    if kind != "encoder":
        shapes = {f"bert.{name}": shape for name, shape in shapes.items()}
        shapes |= {"classifier.weight": (units, wide), "classifier.bias": (units,)}
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def of_training(text, name, folder):
    """The fingerprint of each store of a training, by the store's name with that of its phase."""
    text = re.sub(r"epochs: [0-9.]+", "steps: 10000", text)  # of so few examples: no step
    text = text.replace("first: 500, last", "first: 2, last")
    recipe = load_training(text, env=variables(folder), source=name)
    for each in trainings_of(recipe):
        write_inputs(places_of(each), partial(format_of_training, each))
        write_model(Path(each.model.start), "mono", with_settings=False)
    workspace = Workspace(folder / "work" / name, str(folder / "stores"))
    fingerprints = {}

    def trained(part):
        stores = Planned(execution(workspace))
        at = TrainInvocation(stores, CPU, WorkPlace("inline"))
        named = training_stores.with_ids(part.recipe, part.folder(workspace, "triples"))
        start = start_model(named)
        found = training_stores.training_sets(replace(part, recipe=named), start, at)
        named = training_stores.with_length(named, found, at.say)
        job = Job(
            named, start, found.train, found.dev, workspace.stores, part.phase, part.new_head,
            found.texts,
        )  # fmt: skip
        stores.fingerprints[job.store] = job.spec.fingerprint()
        phase = f"{part.phase}: " if part.phase else ""
        fingerprints.update({f"{phase}{key}": each for key, each in stores.fingerprints.items()})
        model = folder / "trained" / f"{name}-{part.phase}"
        write_model(model, "mono", with_settings=True)
        return {}, Text(()), model

    in_phases(recipe, trained, lambda line: None)
    return fingerprints


def format_of_training(training, key):
    """The format of the collection that a file belongs to."""
    formats = {name: each.format for name, each in training.collections.items()}
    part, name, *_ = key.split(".")
    if part == "collections":
        return formats[name]
    sets = {"train": training.train, "dev": training.dev}.get(part, {})
    own = getattr(sets.get(name), "collection", None)
    return formats.get(own, "msmarco-v1")


def table():
    """A line for each store of each recipe."""
    read = cache(lambda folder, own=model_folder.read_tokenizer: own(folder).to_str())
    copied = lambda folder: Tokenizer.from_str(read(folder))  # noqa: E731
    lines = []
    texts = {name: recipe_text(name) for name in recipe_names()}
    texts |= {f"golden/{path.stem}": path.read_text() for path in sorted(GOLDEN.glob("*.yaml"))}
    with (
        tempfile.TemporaryDirectory(prefix="fingerprints-") as scratch,
        pytest.MonkeyPatch.context() as patch,
    ):
        for module in (model_folder, modules):
            patch.setattr(module, "read_tokenizer", copied)
        folder = Path(scratch)
        for name, text in texts.items():
            short = name.rpartition("/")[2]
            if verb_of(text) == "train":
                found = of_training(text, short, folder)
            else:
                found = of_pipeline(text, short, folder)
            lines += [f"{name}  {store}  {value[:16]}\n" for store, value in found.items()]
    return "".join(lines)


def test_every_store_of_the_packaged_recipes_keeps_its_fingerprint():
    found, expected = table().splitlines(), TABLE.read_text().splitlines()
    gone, new = (sorted({*one} - {*other}) for one, other in ((expected, found), (found, expected)))
    assert not gone + new, (
        "fingerprints changed, so these stores would be computed again; if that is meant, "
        "`PYTHONPATH=tests/helpers python tests/test_fingerprints.py --write`"
    )
    assert found == expected


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    TABLE.write_text(table())
