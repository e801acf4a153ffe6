"""Results of runs. runs.py: a directory -> Run with one frame, its answers, its checkpoint; statistics.py: intervals,
pass@k; table.py: runs -> rows and cells, with the paper's; formats.py: their texts; figures.py: panels; reshard.py: a
checkpoint for other ranks.
"""
