"""Ctrl-C, SIGTERM, SIGHUP before a run has its own answers to them (run.py): one line and the exit code that says so.

The first seconds are imports. An exception in the middle of one may be swallowed by a module that catches everything,
or leave half a library to the interpreter's exit, so the process ends where it stands. launch.sh blocks these signals
until the handlers are here. The standard library only.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

from recipe.rpg.exit_codes import HUNG_UP, INTERRUPTED, TERMINATED

ANSWERS = {
    signal.SIGINT: ("interrupted", INTERRUPTED),
    signal.SIGTERM: ("terminated", TERMINATED),
    signal.SIGHUP: ("hung up", HUNG_UP),
}
before_exit = contextlib.ExitStack()  # closes what must not be left behind


def end_at_once() -> None:
    """From now on these signals end the process.

    One that is ignored, as SIGINT in a script's background and SIGHUP under nohup, stays so.
    """
    for each in ANSWERS:
        if each == signal.SIGTERM or signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ANSWERS)


def raise_on_ctrl_c() -> None:
    """From now on Ctrl-C is Python's KeyboardInterrupt again, where it was to end the process."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raise_on_end(handler: Callable[[int, FrameType | None], None]) -> None:
    """From now on SIGTERM and SIGHUP are handler's, but for a SIGHUP that is ignored."""
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handler)


def _end(number: int, frame: object) -> None:
    for each in ANSWERS:
        signal.signal(each, signal.SIG_IGN)
    before_exit.close()
    word, code = ANSWERS[signal.Signals(number)]
    os.write(2, f"{word} before the run began\n".encode())  # print could be in use where the signal came
    os._exit(code)
