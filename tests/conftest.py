"""What holds for every test: a verdict that repeats, however pytest was started.

Property tests try the same examples in every run; to look further: `pytest --hypothesis-profile=default
--hypothesis-seed=N`. And Ctrl-C reaches what the tests start: a job that a script put into the background ignores
SIGINT, and so would all its children.
"""

import signal

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
signal.signal(signal.SIGINT, signal.default_int_handler)
