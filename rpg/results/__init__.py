"""Results of runs. runs.py: a directory -> Run with one frame, and its answers; statistics.py: intervals, pass@k;
table.py: runs -> rows and cells, the paper's tables; formats.py: their texts; figures.py: panels. checkpoints.py and
reshard.py: a run's checkpoint, used again.
"""
