"""The target of the entry point `verl.plugins`: importing it registers RPG with verl.

verl logs an exception raised here at DEBUG and continues, so that a broken plugin would appear only minutes later, as
"Unsupported loss mode". This module therefore prints the error to stderr, in the driver and in every Ray worker,
before it raises.

With another verl version it registers nothing, unless RPG_ALLOW_VERL=1 is set.
"""

import sys
import traceback

from rpg.verl_plugin import register, version

here = version.installed()
if version.is_ours(here) or version.allowed():
    try:
        register()
    except BaseException:
        failed = "ERROR: rpg could not register with verl; RPG losses and estimators will be missing in this process"
        print(f"{failed}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        raise
else:
    print(
        f"WARNING: rpg is written for verl {version.VERL}, and this is {here}: its losses and estimators are not "
        f"registered ({version.ALLOW}=1 tries)",
        file=sys.stderr,
        flush=True,
    )
