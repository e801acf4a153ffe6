r"""The judge `release`: how the release decided whether a response is right.

Integer sets are scored by text alone, other sets by math-verify on the whole response (docs/judges.md). The steps
follow the rule's order; each works on the result of the one before.
"""

import functools
import logging
import re

from rpg.rewards.sandbox import Sandbox

logger = logging.getLogger(__name__)
sandbox = Sandbox("rpg.rewards.math_verify_child", "math-verify")

TAIL_CHARS = 300  # of a response that are read for an integer set
MAX_RESPONSE_CHARS = 200_000  # for math-verify; 8192 tokens are some 30,000
TIME_LIMIT = 5.0  # seconds of processor time for one response; math-verify's own limit is 5 s for each of its steps

# The rest of the line after the colon; \s* also crosses line ends, so after an empty line it is the next
ANSWER = re.compile(r"Answer\s*:\s*([^\n]+)", re.IGNORECASE)

REPLACED = (
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    ("\\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
)
# The order counts: "cm" is gone before "cents" could have been made of what it leaves
DELETED = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", "\\ldots", "sue"),
    *("points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals"),
    *("edges", "students", "childrentickets", "multiples"),
    *("\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}"),
    *("\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots"),
)
REWRITTEN = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r".*?\$(.*?)\$.*", r"$\1$"),  # a line with two dollar signs
        (r"\\text\{(.*?)\}", r"\1"),
        (r"\\textbf\{(.*?)\}", r"\1"),
        (r"\\overline\{(.*?)\}", r"\1"),
        (r"\\boxed\{(.*)\}", r"\1"),
        (r"frac([^{])(.)", r"frac{\1}{\2}"),
        (r"sqrt([^{])", r"sqrt{\1}"),
        (r"\$", ""),
    )
)


def answer_line(response: str) -> str | None:
    """The rest of the line after the last "Answer:" in the last 300 characters; None where there is none."""
    answers = ANSWER.findall(response[-TAIL_CHARS:])
    return answers[-1] if answers else None


def judge_text(response: str, truth: str) -> tuple[bool, str]:
    """Whether the last "Answer:" in the last 300 characters says `truth`, and what it says, both normalised.

    (False, "") where there is none; \\boxed{} does not stand in for it.
    """
    stated = answer_line(response)
    if stated is None:
        return False, ""
    answer = normalize(stated)
    return answer == normalized_truth(truth), answer


def judge_expression(response: str, truth: str, time_limit: float) -> tuple[bool, str]:
    """What math-verify says of the whole response, and the answer that it read there.

    (False, "") where it takes more than `time_limit` seconds of processor time, and where the
    response is so long that reading it would.
    """
    if len(response) > MAX_RESPONSE_CHARS:
        return False, ""
    verdict = sandbox.ask(truth, response, time_limit=time_limit)
    if verdict is None:
        logger.warning("response not judged within %.2f s: ...%r, truth %.80r", time_limit, response[-80:], truth)
    right, answer = verdict or (False, "")
    return right, answer


def normalize(text: str) -> str:
    """Return the normal form in which answer and truth are compared as strings."""
    text = text.rpartition("=")[2]
    for before, after in REPLACED:
        text = text.replace(before, after)
    for words in DELETED:
        text = text.replace(words, "")
    for pattern, replacement in REWRITTEN:
        text = pattern.sub(replacement, text)
    digits = text.replace(",", "")
    return (digits if digits.isdigit() else text).strip()


normalized_truth = functools.lru_cache(maxsize=4096)(normalize)  # the responses of a group share one
