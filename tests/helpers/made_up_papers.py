"""Made-up folders in the shape of all that `raypipe reproduce` reads; settings for tiny models."""

import gzip
import json

from car_files import paragraph, words
from made_up_msmarco import NUM_PASSAGES, NUM_QUERIES, candidates, text, write_msmarco

TINY = ["resources.backend=inline", "resources.device=cpu"]
FAST = ["steps=4", "batch=4", "optimiser.warmup=1", "resources.precision=fp32"]
LIMITS = ["model.query_limit=12", "model.total_limit=64"]


def write_papers(data):
    """DATA/msmarco, msmarco-v2, runs and treccar."""
    write_msmarco(data / "msmarco")
    write_training(data / "msmarco")
    write_runs(data / "runs")
    write_treccar(data / "treccar")
    write_v2(data / "msmarco", data / "msmarco-v2")
    return data


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def queries(first, number):
    return [f"{first + n}\t{text(first + n + 5, 3)} {first + n}\n" for n in range(number)]


def write_training(folder):
    """Queries of eval and of training, and triples of ids and of texts."""
    write(folder / "queries.eval.small.tsv", queries(500, 5))
    write(folder / "queries.train.tsv", queries(1000, 30))
    ids = [(1000 + n, n % NUM_PASSAGES, (n * 7 + 3) % NUM_PASSAGES) for n in range(30)]
    rows = [(q, a, b) for q, a, b in ids if a != b]
    triples = [f"{q}\t{a}\t{b}\n" for q, a, b in rows]
    write(folder / "qidpidtriples.train.full.2.tsv.gz", triples)
    texts = [f"{text(q, 3)} {q}\t{text(a, 5)} {a}\t{text(b, 6)} {b}\n" for q, a, b in rows]
    write(folder / "triples.train.small.tsv", texts)


def write_runs(folder):
    """Three first stages of others, in MS MARCO's columns."""
    for shift, name in enumerate(("doc2query", "deepct", "doctttttquery"), 1):
        lines = [
            f"{query}\t{(passage + shift) % NUM_PASSAGES}\t{rank}\n"
            for query in range(NUM_QUERIES)
            for rank, passage in enumerate(candidates(query), 1)
        ]
        write(folder / f"{name}.dev.tsv", lines)


def write_treccar(folder):
    """Paragraphs in CBOR; headings of five training folds and of the test, as judgements."""
    corpus = folder / "paragraphCorpus" / "dedup.articles-paragraphs.cbor"
    corpus.parent.mkdir(parents=True)
    every = [paragraph(f"{n:040x}", words(text(n, 5 + n % 4))) for n in range(NUM_PASSAGES)]
    corpus.write_bytes(b"".join(every))

    def judged(first, number):
        return [
            f"enwiki:{text(first + n, 2).title().replace(' ', '%20')}%20{first + n}/"
            f"{text(first + n + 1, 1)} 0 {(first + 3 * n) % NUM_PASSAGES:040x} 1\n"
            for n in range(number)
        ]

    for fold in range(5):
        name = f"fold-{fold}-base.train.cbor-hierarchical.qrels"
        write(folder / "train" / name, judged(100 * fold, 8))
    name = "benchmarkY1/benchmarkY1-test/test.pages.cbor-hierarchical.qrels"
    write(folder / name, judged(900, 10))


PID = "msmarco_passage_00_{}".format


def write_v2(msmarco, folder):
    """Passages and documents of version 2 with all queries, judgements and first lists."""
    passages = [
        {
            "pid": f"msmarco_passage_00_{n}",
            "passage": text(n, 6),
            "spans": "(0,1)",
            "docid": f"D{n}",
        }
        for n in range(NUM_PASSAGES)
    ]
    documents = [
        {"docid": f"D{n}", "url": "u", "title": text(n, 2), "headings": "", "body": text(n, 150)}
        for n in range(NUM_PASSAGES)
    ]
    for name, rows in (("passage", passages), ("doc", documents)):
        lines = [json.dumps(row) + "\n" for row in rows]
        write(folder / f"msmarco_v2_{name}" / f"msmarco_{name}_00", lines)
    for year, first in ((2019, 2000), (2020, 2100)):
        write(msmarco / f"msmarco-test{year}-queries.tsv", queries(first, 6))
        judged = [f"{first + n} 0 {n * 3} {n % 3 + 1}\n" for n in range(6)]
        write(msmarco / f"{year}qrels-pass.txt", judged)
        judged = [f"{first + n} 0 D{n * 3} {n % 3 + 1}\n" for n in range(6)]
        write(folder / f"docv2_trec{year}_qrels.txt.gz", judged)
    for kind, name in (("passv2", PID), ("docv2", "D{}".format)):
        for split, first in (("train", 3000), ("dev", 3100)):
            if (kind, split) == ("docv2", "dev"):
                continue
            asked = queries(first, 12)
            write(folder / f"{kind}_{split}_queries.tsv", asked)
            judged = [f"{first + n} 0 {name(n * 5 % NUM_PASSAGES)} 1\n" for n in range(12)]
            write(folder / f"{kind}_{split}_qrels.tsv", judged)
            write(folder / f"{kind}_{split}_top100.txt.gz", listed(first, 12, name))
    write(folder / "2021_queries.tsv", queries(4000, 6))
    judged = [f"{4000 + n} 0 D{n * 2} {n % 3 + 1}\n" for n in range(6)]
    write(folder / "2021.qrels.docs.final.txt", judged)
    write(folder / "2021_document_top100.txt.gz", listed(4000, 6, "D{}".format))


def listed(first, number, name):
    """The first ten of each query, in TREC's columns."""
    return [
        f"{first + n} Q0 {name((n * 5 + 4 * rank) % NUM_PASSAGES)} {rank} {20 - rank} x\n"
        for n in range(number)
        for rank in range(1, 11)
    ]
