"""Files of a run: written whole, locked by one living process, checkpoints with manifests. No torch, no verl.

A checkpoint is one of verl's directories `<run>/global_step_N/` (actor, data.pt, ...). It is complete when its
manifest, written last, exists and every file matches it. Resumption, pre-flight, `rpg doctor`, `rpg export` and
`rpg eval` ask here.
"""
