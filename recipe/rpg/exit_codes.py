"""What a launch script's exit code says."""

DONE = 0
FAILED = 1
REFUSED = 2  # before Ray started
TIMED_OUT = 124  # as timeout(1)
HUNG_UP = 129  # the terminal went (SIGHUP)
INTERRUPTED = 130  # Ctrl-C
TERMINATED = 143  # SIGTERM
