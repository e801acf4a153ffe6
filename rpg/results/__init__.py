"""What people look at when a run is done: runs read from their logs, Last/Best tables, pictures, one page.

metrics.jsonl to a table: runs.py (logs -> RunLog), samples.py (validation samples -> interval, pass@k),
table.py (runs -> rows and cells; the paper's tables), table_command.py (markdown, CSV, LaTeX, JSON);
settings.py: what makes two runs differ. tensorboard.py: event files.
figures.py: panels as PNG and SVG; page.py: the HTML page. reproduction.py: a table's runs, and how far each is.
"""
