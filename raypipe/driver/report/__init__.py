"""Run files, measures, the table, the summary and progress."""
