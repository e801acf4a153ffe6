"""Ray 2 puts the working directory first in the search path of a worker, also where PYTHONSAFEPATH leaves it out.

A types.py, random.py or datasets.py of the user's, in the directory where the run was started, would be imported by
workers instead of the library's. With this file the directory is last in workers of a run of the recipe, which sets the
variable, so that modules of the user's are found and replace none.

May go when Ray obeys PYTHONSAFEPATH.
"""

import os
import sys


def install() -> None:
    """With PYTHONSAFEPATH move a working directory that comes first in the search path to its end; safe to repeat."""
    if sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        sys.path.append(sys.path.pop(0))
