"""Results of runs: reading logs, Last/Best tables, plots, evaluation.

metrics.jsonl to a table: runs.py (a directory -> Run with one frame), samples.py (answers -> interval, pass@k),
settings.py (what tells runs apart, and what accuracies are measured by), table.py (runs -> rows and cells; the paper's
tables), formats.py (markdown, terminal, CSV, JSON). figures.py: panels. comparison.py: A and B, with intervals.
checkpoints.py, reshard.py: a run's checkpoint, used again. rows.py: rows and lines of the paper with their scripts.
"""
