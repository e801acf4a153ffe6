"""What holds for every test: property tests try the same examples in every run, so that a verdict repeats.

To look further: `pytest --hypothesis-profile=default --hypothesis-seed=N`.
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
