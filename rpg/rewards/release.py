r"""The judge `release`: the release's rule for correct responses.

Integer sets are scored by comparing text, other sets by math-verify on the whole response (docs/judges.md). The steps
have the rule's order.
"""

import logging
import re

from rpg.rewards.sandbox import Sandbox

logger = logging.getLogger(__name__)
sandbox = Sandbox("rpg.rewards.math_verify_child")

TAIL_CHARS = 300  # characters of a response that are read for an integer set
TIME_LIMIT = 20.0  # seconds per response, also on a busy machine; math-verify's own limit is 5 s per step

# the rest of the line after the colon; \s* also crosses line ends, so that after an empty line it is the next line
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
# in the release's order, which matters
DELETED = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", "\\ldots", "sue"),
    *("points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals"),
    *("edges", "students", "childrentickets", "multiples"),
    *("\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}"),
    *("\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots"),
)
REWRITTEN = (
    (r".*?\$(.*?)\$.*", r"$\1$"),  # a line with two dollar signs
    (r"\\text\{(.*?)\}", r"\1"),
    (r"\\textbf\{(.*?)\}", r"\1"),
    (r"\\overline\{(.*?)\}", r"\1"),
    (r"\\boxed\{(.*)\}", r"\1"),
    (r"frac([^{])(.)", r"frac{\1}{\2}"),
    (r"sqrt([^{])", r"sqrt{\1}"),
    (r"\$", ""),
)


def judge_text(response: str, truth: str) -> tuple[bool, str]:
    """Return whether the last "Answer:" in the last 300 characters equals `truth`, and the answer, both normalised.

    (False, "") without "Answer:"; \\boxed{} does not replace it.
    """
    if not (answers := ANSWER.findall(response[-TAIL_CHARS:])):
        return False, ""
    answer = normalize(answers[-1])
    return answer == normalize(truth), answer


def judge_expression(response: str, truth: str, time_limit: float = TIME_LIMIT) -> tuple[bool, str]:
    """Return math-verify's verdict on the whole response, and the parsed answer.

    (False, "") if it takes more than `time_limit` seconds, or more memory than its process may.
    """
    try:
        return sandbox.call(truth, response, limit=time_limit)
    except (TimeoutError, ConnectionError) as error:
        why = str(error) or f"took more than {time_limit:g} s"
    logger.warning("response not judged, %s: ...%r, truth %.80r", why, response[-80:], truth)
    return False, ""


def normalize(text: str) -> str:
    """Return the normal form in which answer and truth are compared as strings."""
    text = text.rpartition("=")[2]
    for before, after in REPLACED:
        text = text.replace(before, after)
    for words in DELETED:
        text = text.replace(words, "")
    for pattern, replacement in REWRITTEN:
        text = re.sub(pattern, replacement, text)
    digits = text.replace(",", "")
    return (digits if digits.isdigit() else text).strip()
