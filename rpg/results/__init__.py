"""Results of runs. metrics.jsonl to a table: runs.py (directory -> Run with one frame, and its samples), statistics.py
(intervals, pass@k), table.py (runs -> rows and cells; the paper's tables), formats.py (markdown, terminal, CSV, JSON).
figures.py: panels. checkpoints.py, reshard.py: a run's checkpoint, used again.
"""
