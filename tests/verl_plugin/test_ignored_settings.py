"""Which of two keys verl's FSDP worker reads, where it has two for one thing: the other is ignored without a word.

Harmless are strategy and use_torch_compile (speed); of Ulysses' keys the check `ulysses` reads what verl reads.
"""

import pytest
from omegaconf import OmegaConf

from rpg.config.compose import compose_config

A, F = "actor_rollout_ref.actor", "actor_rollout_ref.actor.fsdp_config"
REF = "actor_rollout_ref.ref"
ULYSSES = "ulysses_sequence_parallel_size"
ROWS = [  # section, override, field of the engine's configuration, its value
    ("actor", f"{F}.strategy=fsdp", "strategy", "fsdp2"),  # actor.strategy counts
    ("actor", f"{A}.use_torch_compile=false", "use_torch_compile", True),  # the engine's; the loss reads the actor's
    ("actor", f"{F}.use_torch_compile=false", "use_torch_compile", False),
    ("actor", f"{A}.entropy_from_logits_with_chunking=true", "entropy_from_logits_with_chunking", True),
    ("actor", f"{F}.{ULYSSES}=2", ULYSSES, 2),
    ("actor", f"{A}.{ULYSSES}=2", ULYSSES, 2),  # deprecated, and wins above 1
    ("actor", f"{F}.{ULYSSES}=2 {A}.{ULYSSES}=4", ULYSSES, 4),
    ("ref", f"{A}.{ULYSSES}=2", ULYSSES, 2),  # the reference follows the deprecated key alone
    ("ref", f"{F}.{ULYSSES}=2", ULYSSES, 1),
    ("ref", f"{REF}.fsdp_config.{ULYSSES}=2", ULYSSES, 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("section", "overrides", "name", "value"), ROWS, ids=[row[1] for row in ROWS])
def test_what_the_engine_reads(section, overrides, name, value):
    from verl.utils.config import omega_conf_to_dataclass

    config, _ = compose_config(["rpg.script=x", "model=toy", "dataset=toy", "context=2k", *overrides.split()])
    OmegaConf.set_struct(config, False)
    part = config.actor_rollout_ref[section]
    for key in [key for key in part if key.startswith("log_prob_")]:  # of the reference; the worker renames them
        part.pop(key)
        part.use_dynamic_bsz = True
    engine = omega_conf_to_dataclass(part).engine
    assert getattr(engine, name) == value
