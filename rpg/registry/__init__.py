"""What exists: methods, launch scripts, labels and data sets. Does not import torch, so that a dry run is fast."""
