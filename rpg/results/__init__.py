"""What people look at when a run is done: runs read from any log, Last/Best tables, pictures, one page.

runs.py           load_runs: paths -> Run, from metrics.jsonl, W&B offline files or TensorBoard event files
records.py        records in the order of writing -> one history; resumed and truncated files
wandb_offline.py  the records of a .wandb file
tensorboard.py    the records of event files
methods.py        which method a run is, its colour and mark; which benchmark a data_source is
samples.py        validation samples on disk -> confidence interval and pass@k
score.py          the samples once more, by another judge
paper.py          the paper's tables and their errata
table.py          runs -> rows and cells; render.py: markdown, CSV, LaTeX, JSON
figures.py        panels as PNG and SVG; page.py: the self-contained HTML page
"""
