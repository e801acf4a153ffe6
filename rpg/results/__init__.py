"""Results of runs: reading logs, Last/Best tables, plots, evaluation.

metrics.jsonl to a table: runs.py (logs -> RunLog), samples.py (validation samples -> interval, pass@k),
table.py (runs -> rows and cells; the paper's tables), formats.py (markdown, terminal, CSV, JSON).
run_settings.py: settings that distinguish runs. messages.py: errors, notes and exit codes of the commands.
figures.py: panels as PNG and SVG, their colours and dashes.
comparison.py: A and B, with intervals. watching.py: the live table.
checkpoints.py, evaluation.py, scoring.py: a run's checkpoint and answers, used again.
rows.py: rows and lines of the paper with their scripts; reproduction.py: the runs of these.
"""
