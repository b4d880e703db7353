"""Runs of the reranking workspace."""


def lines(work, system):
    found = {}
    for line in (work / "runs" / "test" / f"{system}.trec").read_text().splitlines():
        query, _, passage, *_ = line.split()
        found.setdefault(query, []).append(passage)
    return found
