"""The process that symbolic.py starts: math-verify loaded once, and forked children that it asks."""

import logging

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from rpg.rewards.wall_helper import serve

SHOWN = 200  # characters of an answer that are sent back
# The release's call: truth as LaTeX, response as plain expression and LaTeX
TRUTH_READERS = [LatexExtractionConfig()]
RESPONSE_READERS = [ExprExtractionConfig(), LatexExtractionConfig()]
WARM_UP = (  # loads what sympy and the parser build on first use, so that children inherit it
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


def read_answer(response: str) -> list:
    """What the library reads as the answer of a whole response: expressions and, last, their text."""
    return parse(response, RESPONSE_READERS, parsing_timeout=None)  # type: ignore[arg-type]


def judge_response(truth: str, response: str) -> str:
    """Verdict "1" or "0" on a whole response, and the text of the answer that the library read; its alarms are off."""
    wanted = parse(f"\\boxed{{{truth}}}", TRUTH_READERS, parsing_timeout=None)  # type: ignore[arg-type]
    said = read_answer(response)
    right = bool(wanted and said) and verify(wanted, said, timeout_seconds=None)
    text = next((part for part in reversed(said) if isinstance(part, str)), "")
    return f"{right:d}{text[:SHOWN]}"


def warm_up() -> None:
    """Judge one answer of each kind."""
    logging.disable(logging.CRITICAL)  # the library warns that its own time limits are off
    for truth, answer in WARM_UP:
        judge_response(truth, f"${answer}$")


if __name__ == "__main__":
    serve(judge_response, warm_up)
