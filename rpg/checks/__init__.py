"""Will this run work? Every such question is a check, asked once, in this room.

A check takes a run's resolved configuration, and the machine, and yields diagnostics. Pre-flight asks the cheap ones
and refuses the run, `rpg doctor` asks all; docs/checks.md lists them.
"""
