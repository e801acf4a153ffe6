"""The registry of methods; no torch, so that a dry run is quick.

registry.py  every method: settings, label, colour, which scripts it has
names.py     names of launch scripts: what they say, their overrides, what contradicts them
labels.py    which method a run is, and how it is drawn
"""
