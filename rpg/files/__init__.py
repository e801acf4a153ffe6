"""A run's files: atomic writes, locks and checkpoint manifests. No torch, no verl.

A checkpoint is one of verl's directories `<run>/global_step_N/` (actor, data.pt, ...). It is complete when its
manifest, written last, exists and every file matches it. Resuming, the preflight checks, `rpg doctor`,
`rpg export` and `rpg eval` use this package.
"""
