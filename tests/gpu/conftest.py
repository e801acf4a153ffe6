"""Fixtures of the tests that need a GPU; scripts/check_gpu.sh runs them."""

from tests.e2e.conftest import start as start  # a fixture
