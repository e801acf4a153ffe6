"""Which of a run's checkpoints are whole, and which of them a run goes on from. Files only: no torch, no verl.

A checkpoint is one of verl's directories `<run>/global_step_N/` (actor, data.pt, ...). It is complete when its
manifest, written last, is there and every file in it is as it says. Resumption, pre-flight, `rpg doctor`, `rpg export`
and `rpg eval` ask here.
"""
