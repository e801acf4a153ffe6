"""verl's engines for a CPU, imported once by the process that ranks are forked from: ten seconds of processor time."""

import os

os.environ["VERL_PLATFORM"] = "cpu"

import rpg.verl_plugin.worker  # noqa: F401
