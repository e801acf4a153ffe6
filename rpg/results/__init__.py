"""What people look at when a run is done: runs read from any log, Last/Best tables, pictures, one page.

runs.py           load_runs: paths -> Run, from metrics.jsonl, W&B offline files or TensorBoard event files
records.py        reading files, lines and numbers that may be anything; records -> one history; notes, exit codes
config.py         the settings that results read, and of which types; experiments.py: what makes two runs differ
escape.py         names and other foreign text, escaped for every format
wandb_offline.py  the records of a .wandb file
tensorboard.py    the records of event files
benchmarks.py     which benchmark a data_source is
samples.py        validation samples on disk -> confidence interval and pass@k
score.py          the samples once more, by another judge
paper.py          the paper's tables and their errata
table.py          runs -> rows and cells; render.py: markdown, CSV, LaTeX, JSON
figures.py        panels as PNG and SVG; page.py: the self-contained HTML page

rows.py           which launch script is which row of which table (rpg/methods)
reproduction.py   the runs behind a table, and how far each is; forecast.py: what the rest takes; work.py: does it
"""
