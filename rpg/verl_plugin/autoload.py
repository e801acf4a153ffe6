"""The target of the entry point `verl.plugins`: importing it registers RPG with verl.

verl below 0.9 has no entry point; VERL_USE_EXTERNAL_MODULES=rpg.verl_plugin.autoload imports it there.

One line on stderr says what this verl is enough for, once for a process and its children. verl logs an exception raised
here at DEBUG and continues, so that a broken plugin would appear only minutes later, as "Unsupported loss mode". This
module therefore prints the error to stderr, in the driver and in every Ray worker, before it raises.
"""

import os
import sys
import traceback

from rpg.verl_plugin import register, resolvers, version


def line(verl: str | None, missing: list[str]) -> str:
    """Return what to tell the user about this verl. missing: what the core needs and it lacks."""
    if missing:
        return (
            f"WARNING: rpg registered no losses and estimators: verl {verl} has no {', no '.join(missing)}; "
            "0.6.1 and later have all"
        )
    core = f"core: pi_ref = pi_old; `rpg train` and launch scripts need verl {version.SYSTEM}"
    tier = "system: everything works" if version.has_system(verl) else core
    return f"rpg: losses and estimators are registered with verl {verl} (tier {tier})"


try:
    resolvers.register()
    from verl.trainer.ppo import core_algos

    missing = version.lacks(core_algos)
    if not missing:
        register()
except BaseException:
    failed = "ERROR: rpg could not register with verl; RPG losses and estimators will be missing in this process"
    print(f"{failed}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    raise
if version.SAID not in os.environ:
    os.environ[version.SAID] = "1"
    print(line(version.installed(), missing), file=sys.stderr, flush=True)
