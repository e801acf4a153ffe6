"""Results of runs: reading logs, Last/Best tables, plots, evaluation.

metrics.jsonl to a table: runs.py (logs -> RunLog), samples.py (validation samples -> interval, pass@k),
table.py (runs -> rows and cells; the paper's tables), table_command.py (markdown, terminal, CSV, JSON).
run_settings.py: settings that distinguish runs. figures.py: panels as PNG and SVG; plot_command.py: the HTML page.
reproduction.py: the runs of a table.
"""
