"""Run files read: TREC, MS MARCO, top1000 and Parquet."""
