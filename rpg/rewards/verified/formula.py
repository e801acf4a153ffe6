"""A strict parser of LaTeX formulas into trees: it does not read what has two meanings (1/2x, \\sin x/2, x2, 2 3)."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

INTEGER = r"(?:[0-9]{1,3}(?:(?:,[0-9]{3})+|(?: [0-9]{3})+)(?![0-9])|[0-9]+)"
DECIMAL = re.compile(rf"[+-]?(?:{INTEGER}(?:\.[0-9]*)?|\.[0-9]+)")  # 27, 27.0, 1,000
MAX_NESTING = 12  # real answers have up to 5; keeps the recursion shallow
BRACKETS = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
COUNTERS = frozenset("kmn")  # letters of integers
OPAQUE = "f"  # f(x+1) is one name, while x(x+1) is a product
# 0.1\bar{6}, 0.1(6)
REPEATING = re.compile(r"(?P<whole>[0-9]*)\.(?P<fixed>[0-9]*)(?:\\(?:bar|dot)\s*\{\s*|\()(?P<block>[0-9]+)\s*[})]")
TOKEN = re.compile(
    rf"\s*(?P<token>{REPEATING.pattern}|{INTEGER}(?:\.[0-9]+)?|\.[0-9]+|\\[A-Za-z]+|[A-Za-z]|"
    r"[-+*/^_(){}\[\]|!',°])"
)
SHORTHANDS = (  # of whole answers
    (re.compile(rf"({DECIMAL.pattern})[eE]([+-]?)0*([0-9]{{1,3}})"), r"\1\\cdot 10^{\2\3}"),
    (re.compile(rf"({DECIMAL.pattern})\s*x\s*(10\s*\^.*)"), r"\1\\cdot \2"),
    (re.compile(rf"([+-]?{INTEGER}) +([0-9]+)/([0-9]+)"), r"\1\\frac{\2}{\3}"),
)
WORD = re.compile(r"(?<![\\A-Za-z])(?:[a-z]{4}|not?(?![a-z]))")  # 0 thousand is not 0; qvBL is a product
# dx/dt is not a quotient of products with d: compared as text
DERIVATIVE = re.compile(
    r"\\frac\s*\{\s*(?:d|\\partial)(?:[^{}]|\{[^{}]*\})*\}\s*\{\s*(?:d|\\partial)\s*\\?[A-Za-z](?:[^{}*/+-]|\{[^{}]*\})*\}"
)
UPRIGHT = re.compile(r"\\text\s*\{\s*([A-Za-z])\s*\}")
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
FUNCTIONS = frozenset((*TRIGONOMETRIC, *("arc" + name for name in TRIGONOMETRIC), "ln", "log", "exp", "cis", "abs"))
GREEK = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi
omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega hbar ell"""
LETTERS = frozenset(GREEK.split())
ACCENTS = frozenset(("vec", "hat", "bar", "dot", "ddot", "tilde"))
BEGIN_FACTOR = FUNCTIONS | LETTERS | ACCENTS | {"pi", "frac", "binom", "sqrt", "lfloor", "lceil"}


class Unreadable(Exception):
    """The text is not a formula, has two meanings, or its value is too large."""


class Node(NamedTuple):
    """`op` over `args`; a leaf has its number or name in `leaf`."""

    op: str
    args: tuple["Node", ...] = ()
    leaf: Fraction | str = ""


def decimal(text: str) -> Fraction:
    """Return the exact value of a text that DECIMAL or REPEATING matches."""
    if not (match := REPEATING.fullmatch(text)):
        return Fraction(text.replace(",", "").replace(" ", "").rstrip("."))
    repeated = Fraction(int(match["block"]), 10 ** len(match["block"]) - 1)
    return int(match["whole"] or "0") + (int(match["fixed"] or "0") + repeated) / 10 ** len(match["fixed"])


def number(value: int | Fraction) -> Node:
    """Return the leaf of a number."""
    return Node("num", leaf=Fraction(value))


ONE = number(1)
DEGREE = Node("div", (Node("pi"), number(180)))


@lru_cache(maxsize=8192)
def read_formula(text: str) -> Node | None:
    """Return the tree of a number or formula; None for other text and ambiguous text."""
    if DECIMAL.fullmatch(text):
        return number(decimal(text))
    text = UPRIGHT.sub(r" \1 ", text).rstrip()
    if WORD.search(text) or DERIVATIVE.search(text):
        return None
    for pattern, spelling in SHORTHANDS:
        if match := pattern.fullmatch(text):
            text = match.expand(spelling)
    tokens = list(TOKEN.finditer(text))
    if "".join(token[0] for token in tokens) != text:
        return None
    reader = _Reader([token["token"] for token in tokens])
    try:
        tree = reader.sum()
    except Unreadable:
        return None
    return None if reader.next else tree


class _Reader:
    """Recursive descent over the tokens; every method returns a tree or raises Unreadable."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = [*tokens, "", "", ""]
        self.position = 0
        self.nesting = 0
        self.bars = 0

    def ahead(self, distance: int = 0) -> str:
        return self.tokens[self.position + distance]

    @property
    def next(self) -> str:
        return self.ahead()

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise Unreadable(f"{token!r}, expected {expected!r}")
        self.position += 1
        return token

    def sum(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise Unreadable("nested too deeply")
        total = self.term()
        while self.next in ("+", "-"):
            total = Node("add", (total, self.term()))
        self.nesting -= 1
        return total

    def term(self) -> Node:
        sign = self.take() if self.next in ("+", "-") else "+"
        return Node("neg", (self.product(),)) if sign == "-" else self.product()

    def product(self) -> Node:
        result, divided = self.signed_factor(), False
        while True:
            if self.next in ("*", "\\cdot", "/"):
                divide = self.take() == "/"
                result = Node("div" if divide else "mul", (result, self.signed_factor()))
                divided = divided or divide
            elif self.starts_factor():
                before = self.tokens[self.position - 1]
                if divided or not self.may_follow(before):
                    raise Unreadable("x2, 2 3 or 1/2x")
                mixed = before.replace(",", "").isdigit() and self.next == "\\frac"
                factor = self.factor()
                if mixed and factor.op == "div" and all(arg.op == "num" for arg in factor.args):
                    above, below = (Fraction(arg.leaf) for arg in factor.args)
                    if above >= below or result.op != "num":
                        raise Unreadable("no mixed number")
                    result = number(Fraction(result.leaf) + above / below)
                else:
                    result = Node("mul", (result, factor))
            else:
                return result

    def starts_factor(self) -> bool:
        token = self.next
        if token == "|":
            return not self.bars
        return bool(token) and (token[0] in "([{." or token[0].isalnum() or token[1:] in BEGIN_FACTOR)

    def may_follow(self, before: str) -> bool:
        """Return whether the next token can be a factor after `before`: 2^n after n or (n-1), not 2 after x, ) or 3."""
        if not (self.next[0].isdigit() or self.next[0] == ".") or (before, self.ahead(1)) == ("!", "!"):
            return True
        return self.ahead(1) == "^" and not before[-1].isdigit()

    def signed_factor(self) -> Node:
        if self.next != "-":
            return self.factor()
        self.take()
        return Node("neg", (self.factor(),))

    def factor(self) -> Node:
        base = self.atom()
        while self.next in ("^", "!", "°"):
            match self.take():
                case "!":
                    base = Node("fac2" if self.next == "!" and self.take() else "factorial", (base,))
                case "°":
                    base = Node("mul", (base, DEGREE))
                case _:
                    base = Node("pow", (base, self.argument(plain=True)))
                    if self.next == "^":
                        raise Unreadable("a^b^c")
        return base

    def argument(self, plain: bool = False) -> Node:
        """Read {...}, (...) or, as in TeX, one character; with `plain` also a whole number, or one below zero."""
        token = self.next
        if plain and token == "-":
            self.take()
            return Node("neg", (self.argument(plain),))
        if token.isdigit() and len(token) > 1 and not plain:
            self.tokens[self.position] = token[1:]
            return number(int(token[0]))
        return self.atom()

    def group(self) -> Node:
        opening = self.take()
        bars, self.bars = self.bars, 0
        inside = self.sum()
        self.bars = bars
        self.take(BRACKETS[opening])
        return Node(opening[2:], (inside,)) if opening[0] == "\\" else inside

    def atom(self) -> Node:
        if self.next in BRACKETS:
            return self.group()
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            if self.next == "_" or (len(token) > 1 and token.isdigit() and token[0] == "0"):
                raise Unreadable(token)
            return number(decimal(token))
        if token == "|":
            self.bars += 1
            inside = self.sum()
            self.take("|")
            self.bars -= 1
            return Node("abs", (inside,))
        return self.variable(token) if token.isalpha() else self.command(token[1:])

    def variable(self, name: str) -> Node:
        indexed = self.next == "_"
        if indexed:
            self.take()
            name += "_" + re.sub(r"\\text|[{}]", "", self.raw_argument())
        if not indexed and name in ("i", "e") and self.next != "'":
            return Node(name)
        while self.next == "'":
            name += self.take()
        applied = self.ahead(2) == ")" and self.ahead(1)[-1].isalnum()  # I(0), u(t)
        if self.next == "(" and (name[0] in OPAQUE or applied):
            name += f"({self.raw_argument()})"
        return Node("var", leaf=name)

    def raw_argument(self) -> str:
        """Return the text of {...}, (...) or one token, for names."""
        if self.next not in ("{", "("):
            return self.take()
        depth, start = 0, self.position
        while True:
            token = self.take()
            depth += (token in "{(") - (token in "})")
            if not depth:
                return "".join(self.tokens[start + 1 : self.position - 1])

    def command(self, name: str) -> Node:
        if name in FUNCTIONS:
            return self.function(name)
        if name in LETTERS:
            return self.variable("\\" + name)
        if name == "pi":
            return Node("pi")
        if name in ("frac", "binom"):
            return Node("div" if name == "frac" else "binom", (self.argument(), self.argument()))
        if name == "sqrt":
            degree = self.group() if self.next == "[" else number(2)
            return Node("root", (self.argument(), degree))
        if name in ACCENTS:
            return self.variable(f"\\{name} {self.raw_argument()}")
        raise Unreadable(name)

    def function(self, name: str) -> Node:
        base = exponent = None
        if name == "log" and self.next == "_":
            self.take()
            base = self.argument()
        if self.next == "^":
            self.take()
            exponent = self.argument(plain=True)
            if name in TRIGONOMETRIC and exponent == Node("neg", (number(1),)):  # the inverse, no reciprocal
                name, exponent = "arc" + name, None
        argument = self.group() if self.next in BRACKETS else self.bare_argument()
        value = Node(name, (argument, base or number(10)) if name == "log" else (argument,))
        return value if exponent is None else Node("pow", (value, exponent))

    def bare_argument(self) -> Node:
        """Read an argument such as that of \\sin 2\\pi t: factors up to a bracket, a sign or another function."""
        argument = None
        while self.starts_factor() and self.next not in ("(", "[") and self.next[1:] not in FUNCTIONS:
            if argument is not None and self.next[0].isdigit():
                raise Unreadable("x2")
            factor = self.factor()
            argument = factor if argument is None else Node("mul", (argument, factor))
        if argument is None or (self.next == "/" and self.ahead(1)[1:] not in FUNCTIONS):
            raise Unreadable("\\sin x/2")
        return argument
