r"""The judge `release`: the release's rule for correct responses.

Integer sets are scored by comparing text, with verl's function, other sets by math-verify on the whole response
(docs/judges.md).
"""

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from rpg.rewards.extract import TAIL_CHARS
from rpg.rewards.sandbox import Sandbox

logger = logging.getLogger(__name__)
sandbox = Sandbox("rpg.rewards.math_verify_child")

MATH_DAPO = "utils/reward_score/math_dapo.py"  # in verl; the release calls its is_correct_minerva
NO_ANSWER = "[INVALID]"  # that function's, without "Answer:"
TIME_LIMIT = 20.0  # seconds per response, also on a busy machine; math-verify's own limit is 5 s per step


def judge_text(response: str, truth: str) -> tuple[bool, str]:
    """Return whether the last "Answer:" in the last 300 characters equals `truth`, and the answer, both normalised.

    (False, "") without "Answer:"; \\boxed{} does not replace it.
    """
    correct, answer = text_rule()(response[-TAIL_CHARS:], truth)
    return (False, "") if answer == NO_ANSWER else (correct, answer)


@cache
def text_rule() -> Callable[[str, str], tuple[bool, str]]:
    """Return verl's function, from its file alone: `import verl` takes ten seconds. Raises ImportError without verl."""
    verl = find_spec("verl")
    if verl is None or verl.origin is None:
        raise ModuleNotFoundError("judge=release compares texts as verl does: install verl")
    spec = spec_from_file_location("math_dapo", Path(verl.origin).parent / MATH_DAPO)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.is_correct_minerva


def judge_expression(response: str, truth: str, time_limit: float = TIME_LIMIT) -> tuple[float, str]:
    """Return math-verify's verdict on the whole response, and the parsed answer; limits as in `judged`."""
    return judged(sandbox, response, truth, time_limit)


def judged(library: Sandbox, response: str, truth: str, time_limit: float = TIME_LIMIT) -> tuple[float, str]:
    """Return a library's score of a response, and the answer that it read.

    (0.0, "") if it takes more than `time_limit` seconds, or more memory than its process may.
    """
    try:
        return library.call(response, truth, limit=time_limit)
    except (TimeoutError, ConnectionError) as error:
        why = str(error) or f"took more than {time_limit:g} s"
    logger.warning("response not judged, %s: ...%r, truth %.80r", why, response[-80:], truth)
    return 0.0, ""
