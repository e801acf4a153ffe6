"""Exit codes, and handlers of SIGINT, SIGTERM and SIGHUP. Imported first, so it uses only the standard library.

During imports a signal ends the process at once (`end_at_once`), because a module could swallow an exception. launch.sh
blocks the signals until these handlers are installed. Later a signal raises an exception (`raise_from_now`).
"""

import contextlib
import os
import signal
from types import FrameType
from typing import NoReturn

IN_JOB = "RPG_IN_JOB"  # set in a job's environment, where Ray sets RAY_ADDRESS as well
DONE = 0
FAILED = 1
REFUSED = 2  # before Ray started
INTERRUPTED = 130
ENDS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
received: signal.Signals | None = None
before_exit = contextlib.ExitStack()  # streams that are closed before a signal ends the process


def end_at_once() -> None:
    """Make these signals end the process with one line and its exit code.

    An ignored one (SIGINT in a script's background, SIGHUP under nohup) stays ignored.
    """
    for number in ENDS:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)


def raise_from_now() -> None:
    """Make the first of these signals raise KeyboardInterrupt (`ending`); ignored signals stay ignored."""
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


def _end(number: int, frame: FrameType | None) -> NoReturn:
    ignore_from_now()
    before_exit.close()
    ending = signal.Signals(number)
    os.write(2, f"{WORDS[ending]} before the run began\n".encode())  # print is not reentrant
    os._exit(ENDS[ending])


def _raise(number: int, frame: FrameType | None) -> None:
    # the exception cannot carry it: ray.get replaces a SystemExit by one of its own, with code 1
    global received
    if received is None:  # a second exception would cut off the cleanup
        received = signal.Signals(number)
        raise KeyboardInterrupt
