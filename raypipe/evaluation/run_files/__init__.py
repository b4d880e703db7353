"""Reads run files: TREC, MS MARCO, top1000 and Parquet."""
