"""Formulas of answers as trees: a strict reader of the LaTeX that answers are written in.

math-verify's reader is generous: it takes 2(3) for 2 + 3, "3 4" for 7, 12_7 for 12, x' for x and I_0 for I, so
what it finds equal can be different. This one reads only what has one meaning and raises Unreadable for the
rest: 1/2x, \\sin x/2, x2, a word.
"""

import re
from fractions import Fraction
from functools import lru_cache

from rpg.rewards.grammar import (
    ACCENTS,
    DERIVATIVE,
    DIFFERENTIAL,
    FACTORS,
    FUNCTIONS,
    INVERTIBLE,
    LETTERS,
    UPRIGHT,
    WORD,
    Node,
    Unreadable,
    is_minus_one,
    is_proper,
    renamed,
    tokens,
)
from rpg.rewards.number import BARRED, as_number

MAX_NESTING = 12  # real answers have up to 5; keeps the recursion shallow
OPENING = {"(": ")", "[": "]", "{": "}"}
OPAQUE = "fgh"  # f(x+1) is a value of f, while x(x+1) is a product


@lru_cache(maxsize=4096)
def read_formula(text: str) -> Node:
    """Return the tree of a formula.

    Raises Unreadable for anything else, and for what can be read in two ways.
    """
    if WORD.search(text):
        raise Unreadable(text)
    text = re.sub(r"\\text\s*\{\s*([A-Za-z]|pi|exp|ln|log|(?:arc)?(?:sin|cos|tan))\s*\}", _plain, text)
    reader = _Reader(tokens(text))
    tree = reader.sum()
    if reader.next:
        raise Unreadable(text)
    return tree


def _plain(match: re.Match[str]) -> str:
    return f" {match[1]} " if len(match[1]) == 1 else f"\\{match[1]} "


class _Reader:
    """Recursive descent over the tokens; every method returns a tree or raises Unreadable."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.nesting = 0
        self.bars = 0

    @property
    def next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise Unreadable(f"{token!r}, wanted {expected!r}")
        self.position += 1
        return token

    def sum(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise Unreadable("nested too deeply")
        sign = self.take() if self.next in ("+", "-") else ""
        total = self.product()
        if sign == "-":
            total = Node("neg", (total,))
        while self.next in ("+", "-"):
            minus = self.take() == "-"
            term = self.product()
            total = Node("add", (total, Node("neg", (term,)) if minus else term))
        self.nesting -= 1
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
                if mixed and is_proper(factor):
                    if result.op != "num":
                        raise Unreadable("a mixed number as a factor")
                    result = Node("add", (result, factor))
                elif mixed and all(arg.op == "num" for arg in factor.args):
                    raise Unreadable("2\\frac{3}{2}")
                else:
                    result = Node("mul", (result, factor))
            else:
                return result

    def starts_factor(self) -> bool:
        token = self.next
        if token == "|":
            return not self.bars
        return bool(token) and (token in "([{" or token[0].isalnum() or token[0] == "." or token in FACTORS)

    def may_follow(self, before: str) -> bool:
        """Whether what comes next can be a factor beside `before`: 2^n after n or (n-1), but no 2 after x or 3."""
        if not (self.next[0].isdigit() or self.next[0] == "."):
            return True
        power = self.tokens[self.position + 1 : self.position + 2] == ["^"]
        return before in (")", "]") or (power and not before[-1].isdigit())

    def signed_factor(self) -> Node:
        if self.next != "-":
            return self.factor()
        self.take()
        return Node("neg", (self.factor(),))

    def factor(self) -> Node:
        return self.postfix(self.atom())

    def postfix(self, base: Node) -> Node:
        while self.next in ("^", "**", "!"):
            token = self.take()
            if token == "!":
                base = Node("factorial", (base,))
            elif self.next in ("\\circ", "\\prime") or self.tokens[self.position : self.position + 2] in (
                ["{", "\\circ"],
                ["{", "\\prime"],
            ):
                braced = self.next == "{"
                mark = self.tokens[self.position + braced]
                self.position += 1 + braced
                if braced:
                    self.take("}")
                degree = Node("div", (Node("pi"), Node("num", leaf=Fraction(180))))
                base = Node("mul", (base, degree)) if mark == "\\circ" else renamed(base, "'")
            else:
                base = Node("pow", (base, self.argument(plain=True)))
                if self.next in ("^", "**"):
                    raise Unreadable("a^b^c")
        return base

    def argument(self, plain: bool = False) -> Node:
        """Read {...} or, as TeX does, one character; with `plain` a whole number or a bracket as people type it."""
        token = self.next
        if token == "{":
            return self.group()
        if plain and token == "-":
            self.take()
            return Node("neg", (self.argument(plain),))
        if plain and token == "(":
            return self.group()
        if token.isdigit() and len(token) > 1 and not plain:
            self.tokens[self.position] = token[1:]
            return Node("num", leaf=Fraction(token[0]))
        return self.atom()

    def group(self) -> Node:
        closing = OPENING[self.take()]
        bars, self.bars = self.bars, 0
        inside = self.sum()
        self.bars = bars
        self.take(closing)
        return inside

    def atom(self) -> Node:
        token = self.next
        if token and token in "([{":
            return self.group()
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            value = as_number(token) if not BARRED.fullmatch(token) else as_number(token.replace(" ", ""))
            if value is None or self.next == "_" or (len(token) > 1 and token.isdigit() and token[0] == "0"):
                raise Unreadable(token)
            return Node("num", leaf=value)
        if token == "|":
            self.bars += 1
            inside = self.sum()
            self.take("|")
            self.bars -= 1
            return Node("abs", (inside,))
        if token.isalpha():
            return self.variable(token)
        return self.command(token[1:])

    def variable(self, name: str) -> Node:
        indexed = self.next == "_"
        if indexed:
            self.take()
            name += "_" + re.sub(r"\\text|[{}]", "", self.raw_argument())
        if not indexed and name in UPRIGHT and self.next != "'":
            return UPRIGHT[name]
        while self.next == "'":
            name += self.take()
        after = self.tokens[self.position : self.position + 3]
        applied = len(after) == 3 and after[2] == ")" and after[1][-1].isalnum()  # I(0), u(t)
        if self.next == "(" and (name[0] in OPAQUE or applied):
            return Node("call", self.arguments(), leaf=name)
        return Node("var", leaf=name)

    def arguments(self) -> tuple[Node, ...]:
        self.take("(")
        values = [self.sum()]
        while self.next == ",":
            self.take()
            values.append(self.sum())
        self.take(")")
        return tuple(values)

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
        if name in ("frac", "binom"):
            return self.fraction(name)
        if name == "sqrt":
            degree = Node("num", leaf=Fraction(2))
            if self.next == "[":
                degree = self.group()
            return Node("root", (self.argument(), degree))
        if name in ACCENTS:
            return self.variable(f"\\{name} {self.raw_argument()}")
        if name in ("lfloor", "lceil"):
            inside = self.sum()
            self.take("\\rfloor" if name == "lfloor" else "\\rceil")
            return Node(name[1:], (inside,))
        raise Unreadable(name)

    def fraction(self, name: str) -> Node:
        start = self.position
        if name == "frac" and self.next == "{":  # dx/dt is no quotient of products with d
            above, below = self.raw_argument(), self.raw_argument() if self.next == "{" else ""
            if DERIVATIVE.fullmatch(below) and DIFFERENTIAL.fullmatch(above):
                return Node("var", leaf=f"{above}/{below}")
            self.position = start
        return Node("div" if name == "frac" else "binom", (self.argument(), self.argument()))

    def function(self, name: str) -> Node:
        base = None
        if name == "log" and self.next == "_":
            self.take()
            base = self.argument()
        exponent = None
        if self.next in ("^", "**"):
            self.take()
            exponent = self.argument(plain=True)
            if name in INVERTIBLE and is_minus_one(exponent):
                name, exponent = "arc" + name, None
        argument = self.group() if self.next and self.next in "([{" else self.bare_argument()
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
        after = self.tokens[self.position + 1 : self.position + 2]
        if argument is None or (self.next == "/" and not (after and after[0][1:] in FUNCTIONS)):
            raise Unreadable("\\sin x/2")
        return argument
