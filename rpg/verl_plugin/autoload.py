"""The target of the entry point `verl.plugins`: importing it registers RPG with verl.

verl logs an exception raised here at DEBUG and goes on, so that a broken plugin would only show up
minutes later as "Unsupported loss mode". This module therefore says on stderr what went wrong, in the
driver and in every Ray worker alike, before it lets verl have the exception.

Another verl than ours may be there for something else, and what it does with an exception is not known: there
nothing is registered unless RPG_ALLOW_VERL=1 asks for it, and what fails is said, not raised.
"""

import os
import sys
import traceback

from rpg.verl_plugin import register, version

here = version.installed()
ours = version.is_ours(here)
if not ours:
    what = "it is tried" if version.allowed() else "its losses and estimators are not registered"
    print(
        f"WARNING: rpg is written for verl {version.VERL}, and this is {here or 'a verl without a version'}: {what} "
        f"({version.ALLOW}={int(version.allowed())})",
        file=sys.stderr,
        flush=True,
    )
if ours or version.allowed():
    try:
        register()
    except BaseException as error:
        print(
            f"ERROR: rpg could not register with verl in process {os.getpid()}; "
            f"RPG losses and estimators will be missing there.\n{traceback.format_exc()}",
            file=sys.stderr,
            flush=True,
        )
        if ours or not isinstance(error, Exception):
            raise
