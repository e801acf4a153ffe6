r"""Generated responses and truths for every part of the release's rule, seeded."""

import random
from collections.abc import Iterator


def between_bars(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


MARKS = between_bars(
    "Answer:|Answer: |answer: |ANSWER:|aNsWeR :|Answer\t:\t|Answer\n:\n|Answer:\n\n|Answer:\r\n|**Answer:** |"
    "**Answer**: |Final Answer: |preanswer: |Answers: |Answer is |Answer |Antwort: |Answer\uff1a|Answer\xa0:\xa0|"
    "Answer:\u2028|Answer:\u2003|Answer:\x1c|Answer:\x85|an\u017fwer: |Answer:: |Answer:Answer: |Answer:\nAnswer: |"
    "\\boxed{|$\\boxed{|answer=|Answer: x = |\u017fAnswer: "
)
DIGITS = between_bars("0|7|42|204|025|1,000|1,00|1{,}000|12,34|,|\uff17|\u0664\u0662|\xb2|3\xb9|\u2460")
UNITS = between_bars(
    "square|ways|integers|dollars|mph|inches|hours|km|units|\\ldots|sue|points|feet|minutes|digits|cents|degrees|cm|"
    "gm|pounds|meters|meals|edges|students|childrentickets|multiples|\\text{s}|\\text{.}|\\text{\ns}|\\text{}^2|"
    '\\text{}^3|\\text{\n}|\\text{}|\\mathrm{th}|^\\circ|^{\\circ}|\\;|,\\!|{,}|"|\\dots|\\text{m}|\\text{and}|'
    ",\\text{and}|\\mbox{m}|mbox|an |a |\\$|\\ |.$|\\mbox{ cm}|\\text{ cents}|child|tickets"
)
TEX = between_bars(
    "\\frac12|\\frac{1}{2}|\\frac1{2}|\\frac{1}2|\\frac 1 2|\\dfrac{3}{4}|frac|frac{|frac1|fracfrac12|\\sqrt2|"
    "\\sqrt{2}|\\sqrt 2|sqrt|sqrtsqrt3|\\text{x}|\\text{|\\textbf{42}|\\overline{AB}|\\boxed{7}|\\boxed{\\text{7}}|"
    "\\boxed{\\frac{1}{2}}|\\text{a}b}|\\text{\\text{7}}|\\boxed{7} or \\boxed{8}|\\boxed{7|x=|=|==|x = 1 = |$|$$|"
    "$42$|$4$ and $2$|\\$5|5.$|\\(42\\)|{|}|^|\\|-|\u2212"
)
SPACES = between_bars(" |  |\t|\r|\x0b|\x0c|\x1c|\x1f|\x85|\xa0|\u2003|\u2028|\u2029|\u200b|\ufeff|\u3000")
WORDS = between_bars("a|an|is|banana |Canada |sum|c|m|c m|k|s|East|\u7b54\u6848|\U0001d7d9|e\u0301|42.|42.0|4.2e1")
PIECES = DIGITS + UNITS + TEX + SPACES + WORDS
GAPS = ("\n", " ", "\n\n", " or ", ", ", "\r\n", "\u2028", "", "}$", "\nAnswer:", "\nAnswer: \n", "\nAnswer:\r\n\t\n")
FILLERS = (".", "\n", "so. ", "\u7b54", " ", "answer ", "\r")


def endings(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield responses and truths: one to four numbers or texts of pieces, each after a mark.

    A third of the responses go on, so that "Answer:" is around the 300th character from the end.
    """
    rng = random.Random(seed)
    for number in range(count):
        texts = [
            rng.choice((str(rng.randrange(1000)), "".join(rng.choices(PIECES, k=rng.choice((1, 2, 4, 8, 60))))))
            for _ in range(rng.choice((1, 1, 2, 4)))
        ]
        stated = [rng.choice(("Answer: ", rng.choice(MARKS))) + text for text in texts]
        response = "Work.\n" + "".join(text + rng.choice(("", rng.choice(GAPS))) for text in stated)
        if number % 3 == 0:
            length = 300 - len(stated[-1]) + rng.randint(-12, 12)
            response += (rng.choice(FILLERS) * 300)[: max(length, 0)]
        yield response, rng.choice((texts[-1], texts[-1], texts[-1].strip(), texts[0]))
