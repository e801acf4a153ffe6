"""The target of the entry point `verl.plugins`: importing it registers RPG with verl.

verl logs an exception raised here at DEBUG and goes on, so that a broken plugin would only show up
minutes later as "Unsupported loss mode". This module therefore says on stderr what went wrong, in the
driver and in every Ray worker alike, before it lets verl have the exception.
"""

import os
import sys
import traceback

from rpg.verl_plugin import register

try:
    register()
except BaseException:
    print(
        f"ERROR: rpg could not register with verl in process {os.getpid()}; "
        f"RPG losses and estimators will be missing there.\n{traceback.format_exc()}",
        file=sys.stderr,
        flush=True,
    )
    raise
