"""Which tests need reasoning-gym: scripts/setup.sh installs it, but where its pycosat cannot be compiled."""

import importlib.util
import shutil

import pytest

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None and shutil.which("cc") is None,
    reason="reasoning-gym's pycosat is built with a C compiler, and there is none",
)
