"""Made the files of this folder, with ranx 0.3.21, PyTerrier 1.1.2 and pandas 3.1.1."""

import pandas as pd
import pyterrier as pt
import ranx

run = ranx.Run(
    {"q1": {"d1": 0.75, "d10": 0.5, "d2": 0.5}, "q2": {"007": 2.25, "d1": -1.5}}, name="mine"
)
qrels = ranx.Qrels({"q1": {"d1": 1, "d3": 2}, "q2": {"007": 1}})
for kind in ("json", "trec", "parquet"):
    run.save(f"ranx.run.{kind}", kind=kind)
    qrels.save(f"ranx.qrels.{kind}", kind=kind)

texts = {"q1": 'what is, a "pipe"', "q2": "two"}
rows = [
    ("q1", 3, "d1", 0, 0.75),
    ("q1", 9, "d10", 1, 0.5),
    ("q1", 11, "d2", 2, 0.5),
    ("q2", 0, "007", 0, 2.25),
    ("q2", 3, "d1", 1, -1.5),
]
found = pd.DataFrame(
    [(*row, texts[row[0]]) for row in rows],
    columns=["qid", "docid", "docno", "rank", "score", "query"],
)
pt.io.write_results(found, "pyterrier.res.gz", format="trec", run_name="mine")
pt.io.write_results(found, "pyterrier.minimal.tsv", format="minimal")
found.to_csv("pyterrier.csv", index=False)
found.to_parquet("pyterrier.parquet")
pd.DataFrame(texts.items(), columns=["qid", "query"]).to_csv("pyterrier.topics.csv", index=False)
judged = pd.DataFrame(
    [("q1", "d1", 1), ("q1", "d3", 2), ("q2", "007", 1)], columns=["qid", "docno", "label"]
)
judged.to_csv("pyterrier.qrels.csv", index=False)
judged.to_parquet("pyterrier.qrels.parquet")
