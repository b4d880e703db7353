"""Pages of docs/ that lead a reader from one command to the next, followed as they stand."""

import json
import shutil

import pytest
import torch
from page_steps import DOCS, follow, steps_of

PASSAGES = {
    "csv": "Read a file of comma separated values row by row.",
    "json": "Decode a JSON document into dictionaries and lists.",
    "zip": "Create, read and extract ZIP archives.",
    "log": "Write messages of a program to a log file, by level.",
    "re": "Find patterns of text with regular expressions.",
    "sqlite": "Keep tables in a database that is one file.",
}
QUERIES = {
    "q1": "parse comma separated values",
    "q2": "unpack an archive",
    "q3": "search text for a pattern",
}
QRELS = {"q1": "csv", "q2": "zip", "q3": "re"}


def write_tsv(path, texts):
    path.write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))


@pytest.fixture
def here(tmp_path, inline):
    """A folder with what every page begins with; stages run without Ray, whose start is no step."""
    write_tsv(tmp_path / "passages.tsv", PASSAGES)
    write_tsv(tmp_path / "queries.tsv", QUERIES)
    return tmp_path


@pytest.mark.parametrize(
    "page", ["nightly_index.md", "from_sentence_transformers.md", "from_pyserini.md"]
)
def test_a_page_is_short_and_the_readme_names_it(page):
    text = (DOCS / page).read_text()
    assert len(text.splitlines()) <= 125 and len(steps_of(page)) >= 8
    assert f"(docs/{page})" in (DOCS.parent / "README.md").read_text()


@pytest.mark.slow
def test_the_nightly_index_page_is_followed_to_its_end(here):
    printed = follow("nightly_index.md", here)
    lines = [line for text in printed for line in text.splitlines()]
    assert any(line.startswith("generation 3 (refused), ") for line in lines)
    (changed,) = {line for line in lines if line.startswith("generation 2, ")}
    assert "7 passages, 1 added, 0 removed, 1 changed, 10 rows copied" in changed
    (back,) = {line for line in lines if line.startswith("generation 5, ")}
    assert back.endswith(", 7 passages, the content of generation 2")
    assert lines[-1] == "every file has the bytes that were written"


def bare(folder, to, *names):
    """The weights and the tokenizer alone, as `transformers` writes them."""
    to.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", *names):
        shutil.copy(folder / name, to / name)
    return str(to)


@pytest.mark.slow
def test_the_page_for_users_of_sentence_transformers_is_followed_to_its_end(
    here, tiny_model, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from sentence_transformers import CrossEncoder, SentenceTransformer, models

    body = models.Transformer(bare(tiny_model, here / "encoder"), max_seq_length=40)
    pooled = models.Pooling(body.get_word_embedding_dimension())
    theirs = SentenceTransformer(modules=[body, pooled, models.Normalize()], device="cpu")
    theirs.save_pretrained(str(here / "my-encoder"))
    torch.manual_seed(0)  # of the head, which is new
    reranker = CrossEncoder(str(here / "encoder"), num_labels=1, max_length=40, device="cpu")
    reranker.save_pretrained(str(here / "my-reranker"))
    (here / "qrels.txt").write_text("".join(f"{q} 0 {p} 1\n" for q, p in QRELS.items()))
    printed = follow("from_sentence_transformers.md", here)
    assert "mean" in printed[0] and any("nDCG@10" in text for text in printed)
    reranked = (here / "work/reranked/runs/queries/score.trec").read_text().splitlines()
    assert len(reranked) == len(PASSAGES) * len(QUERIES)


@pytest.mark.jvm
@pytest.mark.slow
def test_the_page_for_users_of_pyserini_is_followed_to_its_end(here):
    (here / "collection").mkdir()
    lines = [json.dumps({"id": key, "contents": text}) for key, text in PASSAGES.items()]
    (here / "collection" / "docs.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copy(here / "queries.tsv", here / "topics.tsv")
    (here / "qrels.txt").write_text("".join(f"{q} 0 {p} 1\n" for q, p in QRELS.items()))
    run = [(q, p, rank) for q in QUERIES for rank, p in enumerate(PASSAGES, 1)]
    text = "".join(f"{q} Q0 {p} {rank} {10 / rank:.4f} Anserini\n" for q, p, rank in run)
    (here / "run.theirs.txt").write_text(text)
    printed = follow("from_pyserini.md", here)
    evaluated = next(text for text in printed if "recip_rank" in text)
    assert "1.0000" in evaluated, "BM25 finds each answer by its words"
    mono = (here / "work/mono/runs/queries/score.trec").read_text().splitlines()
    assert len(mono) == len(run)
    assert sorted(path.name for path in (here / "faiss").iterdir()) == ["docid", "index"]
    assert (here / "faiss/docid").read_text().split() == list(PASSAGES)
    table = printed[-1]
    assert all(f"| {name} " in table for name in ("bm25", "theirs", "mono"))
