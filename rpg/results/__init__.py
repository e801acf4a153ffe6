"""What people look at when a run is done: runs read from their logs, Last/Best tables, pictures, one page.

metrics.jsonl to a table: runs.py (logs -> RunLog), samples.py (validation samples -> interval, pass@k),
table.py (runs -> rows and cells; the paper's tables), table_command.py (markdown, terminal, CSV, JSON).
run_settings.py: what makes two runs differ. figures.py: panels as PNG and SVG; plot_command.py: the HTML page.
reproduction.py: the runs of a table.
"""
