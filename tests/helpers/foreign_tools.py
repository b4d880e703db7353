"""Files of other tools, and what they hold."""

from pathlib import Path

FOREIGN = Path(__file__).with_name("foreign_files")
BY_ID = [("q1", "d1"), ("q1", "d2"), ("q1", "d10"), ("q2", "007"), ("q2", "d1")]
"""The run of every tool with its tie by passage id descending, as in trec_eval."""
AS_WRITTEN = [("q1", "d1"), ("q1", "d10"), ("q1", "d2"), ("q2", "007"), ("q2", "d1")]
SCORES = [0.75, 0.5, 0.5, 2.25, -1.5]
QRELS = {("q1", "d1", 1), ("q1", "d3", 2), ("q2", "007", 1)}
QUERIES = [("q1", 'what is, a "pipe"'), ("q2", "two")]
