"""The target of the entry point `verl.plugins`: importing it registers RPG with verl.

verl below 0.9 has no entry point; VERL_USE_EXTERNAL_MODULES=rpg.verl_plugin.autoload imports it there.

verl logs an exception raised here at DEBUG and continues, so that a broken plugin would appear only minutes later, as
"Unsupported loss mode". This module therefore prints the error to stderr, in the driver and in every Ray worker.
"""

import sys
import traceback

from rpg.verl_plugin import register, resolvers

try:
    resolvers.register()
    register()
except BaseException:
    failed = "ERROR: rpg could not register with verl; RPG losses and estimators will be missing in this process"
    print(f"{failed}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    raise
