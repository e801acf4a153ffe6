"""What holds for every test: a verdict that repeats, however pytest was started.

Property tests try the same examples in every run; to look further: `pytest --hypothesis-profile=default
--hypothesis-seed=N`. And signals reach what the tests start: a job that a script put into the background ignores
SIGINT, one under nohup SIGHUP, and so would all their children. A handler of our own is not handed on to them.
"""

import signal

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)
