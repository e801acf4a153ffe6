"""What people look at when a run is done: runs read from their logs, Last/Best tables, pictures, one page.

log.py            metrics.jsonl -> steps x metrics, in bounded memory; tensorboard.py: event files
runs.py           load_runs: paths -> RunLog; config.py: settings, what makes two runs differ, benchmarks, notes
samples.py        validation samples on disk -> confidence interval and pass@k
table.py          runs -> rows and cells; render.py, *.jinja: markdown, CSV, LaTeX, JSON
paper.py          the paper's tables and their errata
figures.py        panels as PNG and SVG; page.py: the self-contained HTML page

rows.py           which launch script is which row of which table (rpg/methods)
reproduction.py   the runs behind a table, and how far each is; forecast.py: what the rest takes; run_queue.py: does it
"""
