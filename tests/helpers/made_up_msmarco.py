"""A folder in the shape of MS MARCO's files, of a few dozen made-up passages and 20 dev queries."""

WORDS = "lease shard rank query passage zebra run the of a".split()
NUM_PASSAGES, NUM_QUERIES, NUM_CANDIDATES = 60, 20, 14


def text(number, length):
    return " ".join(
        WORDS[(number * 7 + 3 * place * (number % 5 + 1)) % 10] for place in range(length)
    )


def write_msmarco(folder):
    """collection.tsv, queries and judgements of dev small, and top1000.dev.tsv."""
    folder.mkdir(parents=True)
    passages = [text(n, 4 + n % 9) for n in range(NUM_PASSAGES)]
    queries = [text(n + 3, 2 + n % 3) for n in range(NUM_QUERIES)]
    lines = {
        "collection.tsv": [f"{n}\t{passage}\n" for n, passage in enumerate(passages)],
        "queries.dev.small.tsv": [f"{n}\t{query}\n" for n, query in enumerate(queries)],
        "qrels.dev.small.tsv": [f"{n} 0 {candidates(n)[0]} 1\n" for n in range(NUM_QUERIES)],
        "top1000.dev.tsv": [
            f"{n}\t{passage}\t{query}\t{passages[passage]}\n"
            for n, query in enumerate(queries)
            for passage in candidates(n)
        ],
    }
    for name, of_file in lines.items():
        (folder / name).write_text("".join(of_file))
    return folder


def candidates(query):
    """The rows of a query's passages in top1000.dev.tsv."""
    return [(query * 11 + 4 * n) % NUM_PASSAGES for n in range(NUM_CANDIDATES)]
