"""The registry of methods; does not import torch, so that a dry run is fast.

registry.py  every method: settings, label, colour, scripts
names.py     names of launch scripts: grammar, overrides, contradictions
labels.py    the method of a run, and how it is drawn
"""
