"""The checks of a run before it starts; docs/checks.md lists them.

A check reads a run's resolved configuration and the machine and yields diagnostics. The preflight runs the cheap checks
and rejects the run on an error; `rpg doctor` runs all.
"""
