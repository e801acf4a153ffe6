"""Whether the verl that is here is the one that we are written for; another may be tried, and is then looked at."""

from collections.abc import Callable, Iterator

from rpg.checks.finding import ABSENT, Finding, Run, check
from rpg.verl_plugin import fused_head, version
from rpg.verl_plugin.reference_settings import KEY as REFERENCE

SWITCH = f"{version.ALLOW}=1"
PLUGIN = "rpg/verl_plugin"


@check("verl's version", f"verl is {version.VERL}, or another is tried ({SWITCH})", subject="machine")
def verl_version(run: Run) -> Iterator[Finding]:
    """Asked before the configuration is made, which is an extension of verl's; the run is not looked at."""
    here = version.installed()
    if here is None:
        yield Finding("verl", ABSENT, "is not installed", f"bash scripts/setup.sh, or {version.INSTALL}")
    elif not version.is_ours(here):
        wrong = f"is not {version.VERL}, for which this is written and with which it is tested"
        if version.allowed():
            yield Finding("verl", here, wrong, f"{SWITCH} tries it; what is found wrong will be named", "warning")
        else:
            yield Finding("verl", here, wrong, f"{version.INSTALL}, or set {SWITCH} to try it")


def _has_reference(run: Run) -> bool:
    return run.get(f"{REFERENCE}.mode") != "old"


def _fused_kernel(run: Run) -> bool:
    return fused_head.asked_for(run.get("actor_rollout_ref.model"))


def _own_rollout(run: Run) -> bool:
    return run.get("actor_rollout_ref.model.external_lib") == "rpg.verl_plugin.rollout"


def _own_checkpoint_engine(run: Run) -> bool:
    return run.get("actor_rollout_ref.rollout.checkpoint_engine.backend") == "rpg_shared_memory"


def _preload(run: Run) -> bool:
    return bool(run.get("rpg.preload.late"))


# Which runs use a file of ours; one that is not named here is used by all. What is read after a run, and the
# laboratory, are used by none.
USED_BY: dict[str, Callable[[Run], bool]] = {
    f"{PLUGIN}/checkpoint_engine.py": _own_checkpoint_engine,
    f"{PLUGIN}/cpu.py": lambda run: run.get("trainer.device") == "cpu",
    f"{PLUGIN}/fused_head.py": _fused_kernel,
    f"{PLUGIN}/reference.py": _has_reference,
    f"{PLUGIN}/rollout.py": _own_rollout,
    f"{PLUGIN}/rollout_classes.py": _own_rollout,
    f"{PLUGIN}/shared_memory.py": _own_checkpoint_engine,
    f"{PLUGIN}/verl_losses.py": lambda run: False,
    "recipe/rpg/config/profile/cpu.yaml": _preload,
    "rpg/preload/ray_ids.py": _preload,
    "rpg/preload/server.py": _preload,
    "rpg/results/": lambda run: False,
}


def used(user: str, run: Run) -> bool:
    """Whether a run uses a file of ours."""
    return all(asks(run) for name, asks in USED_BY.items() if user.startswith(name))


@check("verl's parts", f"every part of another verl ({SWITCH}) that the run uses is as in {version.VERL}",
       "trainer.device", REFERENCE, "actor_rollout_ref.model", "rpg.preload",
       cost="verl", subject="machine")  # fmt: skip
def verl_parts(run: Run) -> Iterator[Finding]:
    """The tables of rpg/verl_plugin/parts_of_*.py, and the keys that the recipe sets; nothing where verl is ours."""
    here = version.installed()
    if here is None or version.is_ours(here):
        return
    from rpg.verl_plugin import register

    try:
        register()  # first of all the platform, without which verl's modules cannot be imported
    except Exception as error:  # noqa: BLE001  # whatever another verl makes of it
        yield Finding("rpg.verl_plugin", ABSENT, f"cannot register with verl ({type(error).__name__}: {error})")
    yield from parts(run)
    yield from keys(here)


def parts(run: Run) -> Iterator[Finding]:
    """Every part that is not as expected: an error where the run uses it."""
    from rpg.verl_plugin import parts_of_ray_and_vllm, parts_of_verl
    from rpg.verl_plugin.parts import sentences

    for table in (parts_of_verl.PARTS, parts_of_ray_and_vllm.PARTS):
        for user, its in table.items():
            for part in its:
                for sentence in sentences(user, part):
                    wrong = sentence.removeprefix(f"{part.path} ")
                    yield Finding(part.path, ABSENT, wrong, level="error" if used(user, run) else "warning")


def keys(here: str) -> Iterator[Finding]:
    """Every key that the recipe sets and that is none of verl's any more, which nobody would read."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from rpg.checks.schema import SCHEMA
    from rpg.checks.verl_own import defaults

    try:
        theirs = Run(defaults())
    except (HydraException, OmegaConfBaseException) as error:
        yield Finding("verl.trainer.config", ABSENT, f"verl's configuration cannot be made: {error}")
        return
    for key, rule in SCHEMA.items():
        if not rule.optional and not key.startswith("rpg.") and theirs.get(key, ABSENT) is ABSENT:
            yield Finding(key, ABSENT, f"is no key of verl {here}'s configuration; nobody would read it")
