def test_a_dev_measure_counts_the_candidates_below_the_first_k(
    small_recipe, small_files, train, tmp_path
):
    """The relevant passage at rank 15, the first 10 reordered: R@20 is 1, and R@10 is 0."""
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    queries = (small_files / "queries.dev.tsv").read_text().splitlines()
    lines, judged = [], []
    for number, query in enumerate(line.split("\t")[0] for line in queries):
        ranking = [ids[(number + place) % len(ids)] for place in range(20)]
        judged.append(f"{query} 0 {ranking[14]} 1\n")
        lines += [f"{query} Q0 {p} {r} {1 / r:.6f} made\n" for r, p in enumerate(ranking, 1)]
    (tmp_path / "dev.trec").write_text("".join(lines))
    (tmp_path / "qrels.txt").write_text("".join(judged))
    dev = {
        "collection": "docs",
        "queries": str(small_files / "queries.dev.tsv"),
        "qrels": str(tmp_path / "qrels.txt"),
        "run": str(tmp_path / "dev.trec"),
        "k": 10,
    }
    few = {"steps": 2, "optimiser": {"warmup": 1}, "dev": {"docs": dev}}
    for measure, expected in (("R@20", 1.0), ("R@10", 0.0)):
        path = small_recipe(**few, validate={"every": 2, "measure": measure})
        trained = train(path, tmp_path / measure.replace("@", "-"))
        assert [each["mean"] for each in trained.summary["history"]] == [expected]
