"""Runs math-verify for release.py, in a child of the sandbox (sandbox.py)."""

import logging

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from rpg.rewards.sandbox import limit_resources

SHOWN = 200  # characters of an answer that are returned
# the release's call: truth as LaTeX, response as plain expression and LaTeX
TRUTH_READERS = [LatexExtractionConfig()]
RESPONSE_READERS = [ExprExtractionConfig(), LatexExtractionConfig()]
WARM_UP = (  # builds caches of sympy and the parser, which children inherit
    ("\\frac{3}{4}", "\\frac{6}{8}"),
    ("\\sqrt{2}", "1.41421"),
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("x^2-1", "(x-1)(x+1)"),
    ("(1,2)", "(1, 3)"),
    ("\\{1,2\\}", "\\{2,3\\}"),
    ("[0,1) \\cup (2,3]", "(2,3] \\cup [0,1)"),
    ("\\frac{\\pi}{6}", "\\arctan(\\frac{1}{\\sqrt{3}})"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
    ("y = 2x+1", "y = 1+2x"),
    ("e^{2}", "\\log(2)"),
    ("3+4i", "4i+3"),
    ("x \\le 3", "x < 3"),
)


def answer(truth: str, response: str) -> tuple[bool, str]:
    """Return whether a response is correct, and the text of its parsed answer. math-verify's alarms are off."""
    wanted = parse(f"\\boxed{{{truth}}}", TRUTH_READERS, parsing_timeout=None)  # type: ignore[arg-type]
    parsed = parse(response, RESPONSE_READERS, parsing_timeout=None)  # type: ignore[arg-type]
    right = bool(wanted and parsed) and verify(wanted, parsed, timeout_seconds=None)
    text = next((part for part in reversed(parsed) if isinstance(part, str)), "")
    return right, text[:SHOWN]


def warm_up() -> None:
    """Judge one answer of each kind, then limit the children's resources."""
    logging.disable(logging.CRITICAL)  # math-verify warns that its time limits are off
    for truth, response in WARM_UP:
        answer(truth, f"${response}$")
    limit_resources()
