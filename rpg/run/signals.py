"""Exit codes of a run, and the signals that end its training in order."""

import os
import signal

DONE = 0
FAILED = 1
REFUSED = 2  # before Ray started
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


class Ended(Exception):
    """A signal has asked for the end; `signal` is which."""

    def __init__(self, number: int):
        super().__init__()
        self.signal = signal.Signals(number)


def hold() -> None:
    """Keep these signals for `check`, in this thread and in those that it starts from now on, to the process's end.

    A handler does not do: Ray sets one of SIGTERM at its start, and the default at its end, when a second signal would
    leave its processes behind. An ignored signal (SIGINT in a script's background, SIGHUP under nohup) stays ignored.
    A child process gets signals if it is started with a preexec_fn, as Ray's are.
    """
    held = {number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, held))


def check(seconds: float = 0.0) -> None:
    """Wait so long for a signal that is held, and raise Ended for it."""
    if arrived := signal.sigtimedwait(ENDS, seconds):
        raise Ended(arrived.si_signo)
