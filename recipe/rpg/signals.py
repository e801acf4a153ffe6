"""Ctrl-C and SIGTERM before a run has its own answers to them (run.py): one line and the exit code that says so.

The first seconds are imports. An exception in the middle of one may be swallowed by a module that catches everything,
or leave half a library to the interpreter's exit, so the process ends where it stands. launch.sh blocks both signals
until the handlers are here. The standard library only.
"""

import contextlib
import os
import signal

from recipe.rpg.exit_codes import INTERRUPTED, TERMINATED

ANSWERS = {signal.SIGINT: ("interrupted", INTERRUPTED), signal.SIGTERM: ("terminated", TERMINATED)}
before_exit = contextlib.ExitStack()  # closes what must not be left behind


def end_at_once() -> None:
    """From now on both signals end the process. A SIGINT that is ignored, as in a script's background, stays so."""
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ANSWERS)


def raise_on_ctrl_c() -> None:
    """From now on Ctrl-C is Python's KeyboardInterrupt again, where it was to end the process."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    for each in ANSWERS:
        signal.signal(each, signal.SIG_IGN)
    before_exit.close()
    word, code = ANSWERS[signal.Signals(number)]
    os.write(2, f"{word} before the run began\n".encode())  # print could be in use where the signal came
    os._exit(code)
