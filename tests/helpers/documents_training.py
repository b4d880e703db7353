"""The small collection as documents of four passages each, and a recipe of two phases over it."""

import json

import yaml
from small_training import write_run

SPLIT = {"length": 12, "stride": 6, "title_words": 2, "headings_words": 0}


class DocumentRecipes:
    """Writes recipes: a phase over passages, then one over documents."""

    def __init__(self, small_files, small_recipe, folder):
        self.files, self.small_recipe, self.folder = small_files, small_recipe, folder
        lines = (small_files / "passages.tsv").read_text().splitlines()
        passages = [line.split("\t", 1) for line in lines]
        self.ids = [f"D{number // 4}" for number in range(len(passages))]
        self.home = dict(zip((p for p, _ in passages), self.ids, strict=True))
        with (folder / "documents.jsonl").open("w") as file:
            for start in range(0, len(passages), 4):
                texts = [text for _, text in passages[start : start + 4]]
                body = {"docid": self.ids[start], "title": f"Page {start}", "headings": ""}
                file.write(json.dumps({**body, "body": " ".join(texts)}) + "\n")
        for split in ("train", "dev"):
            judged = [line.split() for line in self.text(f"qrels.{split}.txt").splitlines()]
            own = [*dict.fromkeys((q, self.home[p]) for q, _, p, grade in judged if int(grade) > 0)]
            (folder / f"{split}.qrels").write_text("".join(f"{q} 0 {d} 1\n" for q, d in own))
            names = list(dict.fromkeys(self.ids))
            run = folder / f"{split}-docs.trec"
            write_run(run, small_files / f"queries.{split}.tsv", names, 12)
        lines = [line.split() for line in run.read_text().splitlines()]
        for query, relevant in dict(own).items():  # dev ranks a relevant one, whatever the texts
            ranked = [line for line in lines if line[0] == query]
            if relevant not in [line[2] for line in ranked]:
                ranked[2][2] = relevant
        run.write_text("".join(" ".join(line) + "\n" for line in lines))

    def text(self, name):
        return (self.files / name).read_text()

    def write(self, documents=None, dev=None, **second):
        """The recipe's path; arguments change what the second phase says."""
        path = self.small_recipe()
        body = yaml.safe_load(path.read_text())
        body["collections"]["pages"] = {
            "format": "msmarco-doc-v2",
            "input": str(self.folder / "documents.jsonl"),
            "split": SPLIT,
        }
        of = {"collection": "pages", "queries": str(self.files / "queries.train.tsv")}
        pages = {
            **of,
            "qrels": str(self.folder / "train.qrels"),
            "negatives": {"runs": str(self.folder / "train-docs.trec"), "first": 2, "last": 12},
            "documents": {"passages": 4, "best": 2, "scored_by": "passages", **(documents or {})},
            "examples_at_most": 64,
        }
        dev_pages = {
            "collection": "pages",
            "queries": str(self.files / "queries.dev.tsv"),
            "qrels": str(self.folder / "dev.qrels"),
            "run": str(self.folder / "dev-docs.trec"),
            "k": 5,
            "queries_at_most": 10,
            "documents": {"method": "k-max-avgp", "k": 2, **(dev or {})},
        }
        body["model"] |= {"head": 1}
        body["loss"] = {"name": "pairwise-hinge"}
        own = ("train", "dev", "steps", "validate")
        first = {"name": "passages", **{key: body.pop(key) for key in own}, "steps": 4}
        short = {"steps": 4, "validate": {"every": 2}}
        phase = {"name": "pages", "train": {"pages": pages}, "dev": {"pages": dev_pages}, **short}
        body["phases"] = [first, {**phase, **second}]
        path.write_text(yaml.safe_dump(body, sort_keys=False))
        return path
