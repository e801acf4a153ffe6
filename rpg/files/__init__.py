"""A run's files: atomic writes, its lock, checkpoints and their manifests. No torch, no verl.

A checkpoint is one of verl's directories `<run>/global_step_N/` (actor, data.pt, ...), complete when its manifest,
written last, exists and every file matches it.
"""
