"""The words of formulas: tokens, and which names are functions, letters and accents."""

import re
from fractions import Fraction
from typing import NamedTuple


class Unreadable(ValueError):
    """The text is no formula, or one that could mean two things."""


class Node(NamedTuple):
    """`op` over `args`; a leaf has its number or name in `leaf`."""

    op: str
    args: tuple["Node", ...] = ()
    leaf: Fraction | str = ""


TOKEN = re.compile(
    r"\s*(?P<token>[0-9]*\.[0-9]*\\(?:overline|bar)\s*\{\s*[0-9]+\s*\}|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\\[A-Za-z]+|[A-Za-z]|"
    r"\*\*|[-+*/^_(){}\[\]|!',])"
)
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4}")  # letters in a row are a word or code, no product of variables
INVERTIBLE = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
TRIGONOMETRIC = (*INVERTIBLE, "cot", "sec", "csc")
FUNCTIONS = frozenset((*TRIGONOMETRIC, *("arc" + name for name in INVERTIBLE), "ln", "log", "exp"))
GREEK = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi
omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega hbar ell"""
LETTERS = frozenset(GREEK.split())
ACCENTS = frozenset(("vec", "hat", "bar", "overline", "dot", "ddot", "tilde", "widehat", "overrightarrow"))
UPRIGHT = {"i": Node("i"), "e": Node("e"), "pi": Node("pi")}
DERIVATIVE = re.compile(r"(?:d|\\partial)(?:\^\{?[0-9]\}?)?(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?(?:\^\{?[0-9]\}?)?")
DIFFERENTIAL = re.compile(r"(?:d|\\partial)(?:\^\{?[0-9]\}?)?[A-Za-z]?(?:_\{?\w+\}?)?")
FACTORS = frozenset(
    "\\" + name for name in (FUNCTIONS | LETTERS | ACCENTS | {"pi", "frac", "binom", "sqrt", "lfloor", "lceil"})
)


def tokens(text: str) -> list[str]:
    """Return the tokens of a formula. Raises Unreadable for a character that formulas do not hold."""
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise Unreadable(text)
        found.append(match["token"])
        position = match.end()
    return found


def is_proper(node: Node) -> bool:
    """Whether this is a fraction of numbers below one, as in 3\\frac{1}{2}."""
    if node.op != "div" or any(arg.op != "num" for arg in node.args):
        return False
    above, below = (arg.leaf for arg in node.args)
    return isinstance(above, Fraction) and isinstance(below, Fraction) and above < below


def is_minus_one(node: Node) -> bool:
    """Whether this is the exponent of \\sin^{-1}."""
    return node.op == "neg" and node.args[0].leaf == 1


def renamed(node: Node, mark: str) -> Node:
    """Return the variable x as x'. Raises Unreadable for anything else."""
    if node.op != "var":
        raise Unreadable("a prime on no name")
    return Node("var", leaf=f"{node.leaf}{mark}")
