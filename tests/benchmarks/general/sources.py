"""The training data of general_rerankers.md: passages, and queries made from them.

    python tests/benchmarks/general/sources.py OUT docs DOCS_WORKSPACE
    python tests/benchmarks/general/sources.py OUT medquad MEDQUAD_FOLDER manuals BOTOCORE FACTBOOK

DOCS_WORKSPACE is that of
`raypipe pipeline docs/experiments/package-docs.yaml`, BOTOCORE and FACTBOOK are the folders of
the two packages. OUT/SOURCE then holds collection.tsv, queries.tsv (all) and queries.SPLIT.tsv,
qrels.SPLIT.txt, own.tsv (query, its own passage) and held.txt (passages for no training list).
MedQuAD and the manuals are drawn one after the other from one generator.
"""

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from random import Random

SEED = 17
LONGEST = 150
"""Words of a manual's passage."""
SHORTEST = 20
SERVICES = 9000
"""Passages of botocore."""


@dataclass
class Source:
    """A collection with its queries: tuples of (id, text), (query id, passage id)."""

    passages: list[tuple[str, str]]
    queries: dict[str, list[tuple[str, str]]]
    qrels: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    own: list[tuple[str, str]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


Made = tuple[str, str, str]
"""A query made from a passage: its id, its text, the passage's id."""


def docs(folder: Path, draw: Random) -> Source:
    """12,000 names of package-docs' training split, and 5,000 first sentences."""
    passages = list(_tsv(folder / "passages.tsv"))
    train, dev = (list(_tsv(folder / f"queries.{split}.tsv")) for split in ("train", "dev"))
    relevant = {split: _qrels(folder / f"qrels.{split}.txt") for split in ("train", "dev")}
    held = {passage for _, passage in relevant["dev"]}
    draw.shuffle(train)
    train = train[:12_000]
    kept = {query for query, _ in train}
    made = [
        (f"fs-{key}", first, key)
        for key, text in passages
        if key not in held and (first := first_sentence(text))
    ]
    draw.shuffle(made)
    made = made[:5000]
    return Source(
        passages=passages,
        queries={"train": train, "dev": dev[:600], "unlabelled": [each[:2] for each in made]},
        qrels={
            "train": [pair for pair in relevant["train"] if pair[0] in kept],
            "dev": relevant["dev"],
        },
        own=[(query, passage) for query, _, passage in made],
        held=sorted(held),
    )


def medquad(folder: Path, draw: Random) -> Source:
    """The training questions by document: 1 of 20 for dev, 1 of 20 for test."""
    texts = dict(_tsv(folder / "collection.tsv.gz"))
    titles = {
        d["docid"]: squeezed(d["title"]) for d in map(json.loads, _lines(folder / "docs.jsonl.gz"))
    }
    judged = {_document(passage) for _, passage in _qrels(folder / "qrels.passage.txt.gz")}
    questions = dict(_tsv(folder / "train.queries.tsv.gz"))
    source = Source(list(texts.items()), {"train": [], "dev": [], "test": []})
    source.qrels = {"train": [], "dev": [], "test": []}
    for query, passage in _qrels(folder / "train.qrels.txt.gz"):
        split = split_of(_document(passage))
        if split != "train" or _document(passage) not in judged:
            source.queries[split].append((query, questions[query]))
            source.qrels[split].append((query, passage))
    made, seen = list[Made](), set[str]()
    for passage, text in texts.items():
        if split_of(_document(passage)) != "train" or _document(passage) in judged:
            source.held.append(passage)
            continue
        title = titles.get(_document(passage), "")
        if title and title not in seen:
            seen.add(title)
            made.append((f"ti-{passage}", title, passage))
        begins = re.sub(r"^(Summary|What is [^?]*\?)\s*:\s*", "", squeezed(text))
        if first := first_sentence(begins):
            made.append((f"fs-{passage}", first, passage))
    return _with_made(source, made, draw, {"ti": 2500, "fs": 3500})


def manuals(botocore: Path, factbook: Path, draw: Random) -> Source:
    """9,000 entries of the services' manual, and all headings of the country profiles."""
    services = list(_services(botocore))
    draw.shuffle(services)
    source, seen, made = Source([], {}), set[str](), list[Made]()

    def add(key: str, text: str, names: str) -> None:
        text = squeezed(unescape(re.sub(r"<[^>]+>", " ", text)))
        text = " ".join(text.split()[:LONGEST])
        if len(text.split()) < SHORTEST or text.lower() in seen:
            return
        seen.add(text.lower())
        source.passages.append((key, text))
        made.append((f"na-{key}", names, key))
        if first := first_sentence(text):
            made.append((f"fs-{key}", first, key))

    for each in services:
        if len(source.passages) == SERVICES:
            break
        add(*each)
    for each in _countries(factbook):
        add(*each)
    return _with_made(source, made, draw, {"na": 4500, "fs": 4500})


def first_sentence(text: str) -> str:
    """Its first 20 words; nothing if it has fewer than 4."""
    words = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0].split()
    return " ".join(words[:20]) if len(words) >= 4 else ""


def squeezed(text: str) -> str:
    """The text with single spaces."""
    return re.sub(r"\s+", " ", text).strip()


def split_of(document: str) -> str:
    """By a hash of the document's id, so that no document is in two."""
    place = int(hashlib.sha256(f"medquad:{document}".encode()).hexdigest(), 16) % 20
    return {0: "dev", 1: "test"}.get(place, "train")


def write(folder: Path, source: Source) -> None:
    """Write the files of a source; the same bytes for the same inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "collection.tsv", source.passages)
    _write(
        folder / "queries.tsv", [each for queries in source.queries.values() for each in queries]
    )
    for split, queries in source.queries.items():
        _write(folder / f"queries.{split}.tsv", queries)
    for split, pairs in source.qrels.items():
        lines = "".join(f"{query} 0 {passage} 1\n" for query, passage in pairs)
        (folder / f"qrels.{split}.txt").write_text(lines)
    _write(folder / "own.tsv", source.own)
    _write(folder / "held.txt", [(passage,) for passage in source.held])


def _services(botocore: Path) -> Iterator[tuple[str, str, str]]:
    """(id, documentation, names in words) of each service's newest version."""
    newest = {
        path.parts[-3]: path
        for path in sorted(botocore.glob("data/*/*/service-2.json.gz"), key=str)
    }
    for service, path in newest.items():
        found = json.loads(gzip.decompress(path.read_bytes()))
        name = found["metadata"].get("serviceId") or service
        yield f"aws.{service}", found.get("documentation", ""), name
        for kind in ("operations", "shapes"):
            for own, entry in found[kind].items():
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", own)
                if text := entry.get("documentation"):
                    yield f"aws.{service}.{kind[0]}.{own}", text, f"{name} {words}".lower()


def _countries(factbook: Path) -> Iterator[tuple[str, str, str]]:
    for path in sorted(factbook.glob("*/*.json"), key=str):
        found = json.loads(path.read_text())
        if "Introduction" in found:
            names = found.get("Government", {}).get("Country name", {})
            name = (names.get("conventional short form") or {}).get("text") or path.stem
            for heading, text in _headed(found, []):
                key = ".".join(re.sub(r"\W+", "_", part) for part in heading)
                yield f"wfb.{path.stem}.{key}", text, f"{name} {heading[-1]}".lower()


def _headed(part: object, heading: list[str]) -> Iterator[tuple[list[str], str]]:
    if isinstance(part, dict):
        if heading and isinstance(part.get("text"), str):
            yield heading, part["text"]
        for name, inner in part.items():
            if name != "text":
                yield from _headed(inner, [*heading, name])


def _with_made(source: Source, made: list[Made], draw: Random, shares: dict[str, int]) -> Source:
    """The source with so many of the queries of each kind, in a drawn order."""
    draw.shuffle(made)
    chosen = [
        each
        for kind, most in shares.items()
        for each in [m for m in made if m[0].startswith(f"{kind}-")][:most]
    ]
    source.queries["unlabelled"] = [(query, text) for query, text, _ in chosen]
    source.own = [(query, passage) for query, _, passage in chosen]
    return source


def _document(passage: str) -> str:
    return passage.rsplit("_Sec", 1)[0]


def _lines(path: Path) -> list[str]:
    body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return body.decode().splitlines()


def _tsv(path: Path) -> Iterator[tuple[str, str]]:
    for line in _lines(path):
        key, text = line.split("\t", 1)
        yield key, text


def _qrels(path: Path) -> list[tuple[str, str]]:
    return [(line.split()[0], line.split()[2]) for line in _lines(path)]


def _write(path: Path, rows: Sequence[tuple[str, ...]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def main(out: Path, wanted: Sequence[str]) -> None:
    """Make the sources named, each with its inputs."""
    draw, rest = Random(SEED), list(wanted)
    while rest:
        name = rest.pop(0)
        if name == "docs":
            source = docs(Path(rest.pop(0)) / "python-docs", draw)
        elif name == "medquad":
            source = medquad(Path(rest.pop(0)), draw)
        else:
            source = manuals(Path(rest.pop(0)), Path(rest.pop(0)), draw)
        write(out / name, source)
        counts = {split: len(queries) for split, queries in source.queries.items()}
        print(f"{name}: {len(source.passages)} passages, queries {counts}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
