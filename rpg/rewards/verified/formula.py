"""Formulas of answers as trees: a strict reader of the LaTeX that answers are written in.

math-verify's reader is generous: it takes 2(3) for 2 + 3, "3 4" for 7, 12_7 for 12, x' for x and I_0 for I, so
it finds different answers equal. This reader accepts only what has one meaning and raises Unreadable for the
rest: 1/2x, \\sin x/2, x2, a word.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from rpg.rewards.verified.numbers import as_number

MAX_NESTING = 12  # real answers have up to 5; keeps the recursion shallow
BRACKETS = {"(": ")", "[": "]", "{": "}"}
OPAQUE = "fgh"  # f(x+1) is a value of f, while x(x+1) is a product
TOKEN = re.compile(
    r"\s*(?P<token>[0-9]*\.[0-9]*\\(?:overline|bar)\s*\{\s*[0-9]+\s*\}|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\\[A-Za-z]+|[A-Za-z]|"
    r"\*\*|[-+*/^_(){}\[\]|!',])"
)
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4}")  # letters in a row are a word or code, no product of variables
UPRIGHT = re.compile(r"\\text\s*\{\s*([A-Za-z]|pi|exp|ln|log|(?:arc)?(?:sin|cos|tan))\s*\}")
INVERTIBLE = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
TRIGONOMETRIC = (*INVERTIBLE, "cot", "sec", "csc")
FUNCTIONS = frozenset((*TRIGONOMETRIC, *("arc" + name for name in INVERTIBLE), "ln", "log", "exp"))
GREEK = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi
omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega hbar ell"""
LETTERS = frozenset(GREEK.split())
ACCENTS = frozenset(("vec", "hat", "bar", "overline", "dot", "ddot", "tilde", "widehat", "overrightarrow"))
BEGIN_FACTOR = FUNCTIONS | LETTERS | ACCENTS | {"pi", "frac", "binom", "sqrt", "lfloor", "lceil"}
DERIVATIVE = re.compile(r"(?:d|\\partial)(?:\^\{?[0-9]\}?)?(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?(?:\^\{?[0-9]\}?)?")
DIFFERENTIAL = re.compile(r"(?:d|\\partial)(?:\^\{?[0-9]\}?)?[A-Za-z]?(?:_\{?\w+\}?)?")


class Unreadable(ValueError):
    """The text is no formula, one with two meanings, or one whose value is too large."""


class Node(NamedTuple):
    """`op` over `args`; a leaf has its number or name in `leaf`."""

    op: str
    args: tuple["Node", ...] = ()
    leaf: Fraction | str = ""


def number(value: int | Fraction) -> Node:
    """Return the leaf of a number."""
    return Node("num", leaf=Fraction(value))


DEGREE = Node("div", (Node("pi"), number(180)))


@lru_cache(maxsize=4096)
def read_formula(text: str) -> Node:
    """Return the tree of a number or a formula. Raises Unreadable for other text and where there are two meanings."""
    if (exact := as_number(text)) is not None:
        return number(exact)
    if WORD.search(text):
        raise Unreadable(text)
    text = UPRIGHT.sub(lambda match: f" {match[1]} " if len(match[1]) == 1 else f"\\{match[1]} ", text).rstrip()
    tokens, position = [], 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise Unreadable(text)
        tokens.append(match["token"])
        position = match.end()
    reader = _Reader(tokens)
    tree = reader.sum()
    if reader.next:
        raise Unreadable(text)
    return tree


class _Reader:
    """Recursive descent over the tokens; every method returns a tree or raises Unreadable."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.nesting = 0
        self.bars = 0

    def ahead(self, distance: int = 0) -> str:
        position = self.position + distance
        return self.tokens[position] if position < len(self.tokens) else ""

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
        sign = self.take() if self.next in ("+", "-") else "+"
        total = None
        while sign:
            term = self.product()
            term = Node("neg", (term,)) if sign == "-" else term
            total = term if total is None else Node("add", (total, term))
            sign = self.take() if self.next in ("+", "-") else ""
        self.nesting -= 1
        assert total is not None
        return total

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
                mixed = before.isdigit() and self.next == "\\frac"
                factor = self.factor()
                if mixed and factor.op == "div" and all(arg.op == "num" for arg in factor.args):
                    above, below = (Fraction(arg.leaf) for arg in factor.args)
                    if above >= below or result.op != "num":
                        raise Unreadable("no mixed number")
                    result = Node("add", (result, factor))
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
        """Whether what comes next can be a factor beside `before`: 2^n after n or (n-1), but no 2 after x or 3."""
        if not (self.next[0].isdigit() or self.next[0] == "."):
            return True
        return before in (")", "]") or (self.ahead(1) == "^" and not before[-1].isdigit())

    def signed_factor(self) -> Node:
        if self.next != "-":
            return self.factor()
        self.take()
        return Node("neg", (self.factor(),))

    def factor(self) -> Node:
        base = self.atom()
        while self.next in ("^", "**", "!"):
            if self.take() == "!":
                base = Node("factorial", (base,))
                continue
            braced = self.next == "{"
            if (mark := self.ahead(braced)) in ("\\circ", "\\prime"):
                self.position += 1 + braced
                if braced:
                    self.take("}")
                if mark == "\\prime" and base.op != "var":
                    raise Unreadable("a prime on no name")
                base = Node("mul", (base, DEGREE)) if mark == "\\circ" else Node("var", leaf=f"{base.leaf}'")
            else:
                base = Node("pow", (base, self.argument(plain=True)))
                if self.next in ("^", "**"):
                    raise Unreadable("a^b^c")
        return base

    def argument(self, plain: bool = False) -> Node:
        """Read {...} or, as TeX does, one character; with `plain` a whole number or a bracket as people type it."""
        token = self.next
        if token == "{" or (plain and token == "("):
            return self.group()
        if plain and token == "-":
            self.take()
            return Node("neg", (self.argument(plain),))
        if token.isdigit() and len(token) > 1 and not plain:
            self.tokens[self.position] = token[1:]
            return number(int(token[0]))
        return self.atom()

    def group(self) -> Node:
        closing = BRACKETS[self.take()]
        bars, self.bars = self.bars, 0
        inside = self.sum()
        self.bars = bars
        self.take(closing)
        return inside

    def atom(self) -> Node:
        if self.next in BRACKETS:
            return self.group()
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            value = as_number(token.replace(" ", ""))
            if value is None or self.next == "_" or (len(token) > 1 and token.isdigit() and token[0] == "0"):
                raise Unreadable(token)
            return number(value)
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
        if self.next != "(" or not (name[0] in OPAQUE or applied):
            return Node("var", leaf=name)
        self.take("(")
        arguments = [self.sum()]
        while self.next == ",":
            self.take()
            arguments.append(self.sum())
        self.take(")")
        return Node("call", tuple(arguments), leaf=name)

    def raw_argument(self) -> str:
        """Return the text of {...} or of one token, for names."""
        if self.next != "{":
            token = self.take()
            if not token.isalnum() and token[0] != "\\":
                raise Unreadable(token)
            return token
        depth, start = 0, self.position
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            if not depth:
                return "".join(self.tokens[start + 1 : self.position - 1])

    def command(self, name: str) -> Node:
        if name in FUNCTIONS:
            return self.function(name)
        if name in LETTERS:
            return self.variable("\\" + name)
        if name == "pi":
            return Node("pi")
        if name == "frac" and (derivative := self.derivative()):
            return derivative
        if name in ("frac", "binom"):
            return Node("div" if name == "frac" else "binom", (self.argument(), self.argument()))
        if name == "sqrt":
            degree = self.group() if self.next == "[" else number(2)
            return Node("root", (self.argument(), degree))
        if name in ACCENTS:
            return self.variable(f"\\{name} {self.raw_argument()}")
        if name in ("lfloor", "lceil"):
            inside = self.sum()
            self.take("\\r" + name[1:])
            return Node(name[1:], (inside,))
        raise Unreadable(name)

    def derivative(self) -> Node | None:
        """Return dx/dt as one variable: it is no quotient of products with d. None where this is another fraction."""
        start = self.position
        if self.next == "{":
            above, below = self.raw_argument(), self.raw_argument() if self.next == "{" else ""
            if DERIVATIVE.fullmatch(below) and DIFFERENTIAL.fullmatch(above):
                return Node("var", leaf=f"{above}/{below}")
        self.position = start
        return None

    def function(self, name: str) -> Node:
        base = exponent = None
        if name == "log" and self.next == "_":
            self.take()
            base = self.argument()
        if self.next in ("^", "**"):
            self.take()
            exponent = self.argument(plain=True)
            if name in INVERTIBLE and exponent == Node("neg", (number(1),)):
                name, exponent = "arc" + name, None
        argument = self.group() if self.next in BRACKETS else self.bare_argument()
        value = Node(name, (argument,) if base is None else (argument, base))
        return value if exponent is None else Node("pow", (value, exponent))

    def bare_argument(self) -> Node:
        """Read what \\sin 2\\pi t covers: factors side by side up to a bracket, a sign or another function."""
        argument = None
        while self.starts_factor() and self.next not in ("(", "[") and self.next[1:] not in FUNCTIONS:
            if argument is not None and self.next[0].isdigit():
                raise Unreadable("x2")
            factor = self.factor()
            argument = factor if argument is None else Node("mul", (argument, factor))
        if argument is None or (self.next == "/" and self.ahead(1)[1:] not in FUNCTIONS):
            raise Unreadable("\\sin x/2")
        return argument
