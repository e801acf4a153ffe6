"""Exit codes of a run, and the signals that end its training in order."""

import signal
from types import FrameType

DONE = 0
FAILED = 1
REFUSED = 2  # before Ray started
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
received: signal.Signals | None = None


def raise_from_now() -> None:
    """Make the first of these signals raise KeyboardInterrupt (`ending`).

    An ignored one (SIGINT in a script's background, SIGHUP under nohup) stays ignored.
    """
    global received
    received = None
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def ending() -> signal.Signals:
    """Return the signal behind a KeyboardInterrupt."""
    return received or signal.SIGINT


def ignore_from_now() -> None:
    """Ignore these signals: the process is ending, and a second one would leave its children behind."""
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)


def _raise(number: int, frame: FrameType | None) -> None:
    # the exception cannot carry it: ray.get replaces a SystemExit by one of its own, with code 1
    global received
    if received is None:  # a second exception would cut off the cleanup
        received = signal.Signals(number)
        raise KeyboardInterrupt
