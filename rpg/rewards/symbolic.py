"""math-verify behind the wall (wall.py): sympy can spend hours or all memory on twenty characters."""

import logging

from rpg.rewards.wall import Counts, Pool

logger = logging.getLogger(__name__)

counts = Counts()
pool = Pool("rpg.rewards.symbolic_helper", "math-verify")


def judge_response(truth: str, response: str, time_limit: float) -> tuple[bool, str]:
    """What math-verify says of a whole response: whether it is right, and the text that it read as the answer.

    (False, "") where the library takes over `time_limit` seconds: processor time of the child, so that a busy
    machine does not change verdicts; ten times as much wall time is the end in any case. Safe in threads.
    """
    counts.calls += 1
    try:
        reply = pool.ask([truth, response], time_limit)
    except TimeoutError:
        reply = None
    if reply is None:
        counts.over_limit += 1
        logger.warning("response not judged within %.2f s: ...%r, truth %.80r", time_limit, response[-80:], truth)
        return False, ""
    return reply[0] == "1", reply[1:]
