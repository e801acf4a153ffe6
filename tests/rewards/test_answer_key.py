"""`verified` against the hand-written pairs, and its search for the answer in a response."""

import pytest
from pairs import judge, read_pairs


def test_every_pair() -> None:
    """Verdict, score and accuracy of all pairs; the failure lists those that are misjudged."""
    verdicts = [judge(f"Some work.\nAnswer: {pair.answer}", pair.truth) for pair in read_pairs()]
    assert {(verdict["score"], verdict["acc"]) for verdict in verdicts} == {(1.0, 1.0), (-1.0, 0.0)}
    assert [pair for pair, verdict in zip(read_pairs(), verdicts, strict=True) if verdict["acc"] != pair.verdict] == []


PART_OF_A_FORMULA = (
    r"$-\boxed{12}$; $5+\boxed{12}$; $\boxed{12}\times 10^4$; \boxed{12} thousand; $\frac{\boxed{12}}{4}$; "
    r"\boxed{12}.5; $\boxed{12}^2$; $x \ne \boxed{12}$; $\boxed{12}\pi$; "
    r"\sqrt[3]{\boxed{12}}; \log\boxed{12}; \frac{1}{\boxed{12}}; x_{\boxed{12}}; \boxed{12}a; \boxed{12}\ln 2; "
    r"\boxed{12}:5; \boxed{12},000; \boxed{12} dozen; −\boxed{12}; ±\boxed{12}; \boxed{12}²; \boxed{12}½; "
    r"2 × \boxed{12}; \boxed{12} × 10³; \boxed{12}\,\times 10^3; \boxed{12} \div 2; \boxed{12} \text{ million}; "
    r"\boxed{12}_8; x > \boxed{12}; \log_2 \boxed{12}; The answer is \boxed{12} or 6.; "
    r"$\boxed{12} : 5$; $\boxed{12}, 7$; $(\boxed{12}, 7)$; $\boxed{12} + C$; $\boxed{12}!$; \boxed{12} is wrong; "
    r"$8, \boxed{12}$; \(8, -1, \boxed{12}\)"
)
BESIDE_TEXT = (
    r"$a+b=\boxed{12}$; - \boxed{12}; $\boxed{12}^\circ$; \boxed{12} m; Part (a) - \boxed{12}; **\boxed{12}**; "
    r"a $\boxed{12}$-gon; $\left(\boxed{12}\right)$; <b>\boxed{12}</b>; > \boxed{12}; \boxed{12}. Or we could guess.; "
    r"\boxed{12}!; \boxed{12} - a dozen; Of 8, \boxed{12}"
)
RESPONSES = [
    ("**Answer:** 12", 1, "12"),
    ("**Answer**: 12", 1, "12"),
    (r"\textbf{Answer:} 12", 1, "12"),
    ("Answer\uff1a12", 1, "12"),
    ("Answer:\n\n$12$", 1, "$12$"),
    ("Answer:12\r\n", 1, "12"),
    ("Answer: 12\n\nThat was fun.", 1, "12"),
    ("Answer: 11\nNo, wait.\nAnswer: 12", 1, "12"),
    ("Answer: 12\nAnswer:", -1, ""),
    ("Answer: **", -1, ""),
    ("**Answer:** **12** cm", 1, "12 cm"),
    ("Answer:\n- 12", 1, "12"),
    ("Answer: - 12", -1, "- 12"),
    ("Answer:\n1. 12", 1, "12"),
    (r"\boxed{\text{Answer: }12}", 1, r"\text{Answer: }12"),
    ("It is 12.", -1, ""),
    ("It is easy. So the answer is 12.", 1, "12."),
    ("It is easy.\nThe final answer is **12**", 1, "12**"),
    ("I doubt that the answer is 12.", -1, ""),
    ("The answer is 12. No, it is 11.", -1, "12. No, it is 11."),
    ("The answer is 12.\nOr is it?", -1, ""),
    (r"The answer is 12, or \boxed{11}.", -1, "11"),
    (r"First \boxed{3}, then \boxed{12}.", 1, "12"),
    (r"\boxed{12} no, wait, \boxed{13", -1, ""),  # the limit cut off the box that replaces the first
    (r"\boxed{12}, no, \fbox{\text{about} 13", -1, ""),
    (r"\boxed{13 no, \boxed{12}", 1, "12"),
    (r"\boxed{12} but Answer: 11", -1, "11"),
    (r"First \boxed{3} was guessed; it is \fbox{$12$}.", 1, "12"),
    (r"\boxed{\boxed{12}}", 1, "12"),
    (r"\boxed{\left\{12\right.}", -1, r"\left\{12\right."),  # \{ closes by no brace
    (r"\boxed{12} and \boxed{12}", 1, "12"),
    (r"\boxed{11} and \boxed{12}", -1, "11, 12"),
    (r"$y_1 = \boxed{11}$ and $y_2 = \boxed{12}$", -1, "y_1 = 11, y_2 = 12"),
    ("Final Answer: The final answer is $12$. I hope it is correct.", 1, "The final answer is $12$."),
    (r"\boxed{12}\%", 1, r"12\%"),
    (r"So \boxed {12}.", 1, "12"),
    (r"So \boxed 12.", 1, "12"),
    *((text, -1, "") for text in PART_OF_A_FORMULA.split("; ")),
    *((text, 1, "12") for text in BESIDE_TEXT.split("; ")),
    (r"So $\boxed\frac{24}{2}$.", 1, r"\frac{24}{2}"),
    (r"It is \boxed{12}, in \boxed form.", 1, "12"),
    ("<think>Answer: 11</think>So \\boxed{12}.", 1, "12"),
    ("<think>Answer: 12</think>\nNow it is clear.", -1, ""),
    ("<think>So far, Answer: 12", -1, ""),
    ("<think>" + "and so on " * 40 + "Answer: 12", -1, ""),  # the tail has no <think>
    ("<think>Answer: 11</think>\nAnswer: 12\n<think>Is it?", -1, ""),
    ("Answer: 12\n" + "and so on " * 40, -1, ""),  # 400 characters later it no longer counts
    ("preanswer: 12", -1, ""),
    ("<think>Answer: 11</think>\n<answer> 12\n</answer>\n", 1, "12"),
    ("<answer>11</answer><answer>\\boxed{12}</answer>", 1, "12"),
    ("<answer>12</answer> or rather 11", -1, ""),
    ("It is 3 x 4.\n#### 12", 1, "12"),
    ("<answer>12</answer><|im_end|>", 1, "12"),
    ("#### 12\nNow it is clear.", -1, ""),
]


@pytest.mark.parametrize(("response", "score", "pred"), RESPONSES)
def test_where_the_answer_is_found(response: str, score: int, pred: str) -> None:
    result = judge(response, "12", "math-dapo")
    assert (result["score"], result["pred"]) == (score, pred)


BOXES = [
    (r"\boxed{0.5}\%", "0.5", False),
    (r"The integers are \[ \boxed{-2} \quad \text{and} \quad \boxed{1}. \]", "1,-2", True),
    (r"The integers are \[ \boxed{-2} \quad \text{and} \quad \boxed{1}. \]", "1", False),
    (r"\boxed{2}, \boxed{5} and \boxed{8}", "{2,5,8}", True),
    (r"\boxed{2}, \boxed{5} and \boxed{8}", "5, 8", False),
    (r"\boxed{(3, 1)}, or $\boxed{(1, 3)}$.", "(1, 3), (3, 1)", True),
    (r"\boxed{(3, 1)}, or $\boxed{(1, 3)}$.", "(1, 3), (1, 3)", False),
    (r"\($y_1 = \boxed{2x}\) and \(y_2 = \boxed{-x}\)", "y_1 = 2x, y_2 = -x", True),
    (r"\($y_1 = \boxed{2x}\) and \(y_2 = \boxed{-x}\)", "y_1 = -x, y_2 = 2x", False),
    (r"$(x, y) = \boxed{(-6, 10)}$", "Take A = 2B and solve for x. " * 9 + r"So it is $\boxed{(-6, 10)}$.", True),
    (r"$(x, y) = \boxed{(-6, 11)}$", "Take A = 2B and solve for x. " * 9 + r"So it is $\boxed{(-6, 10)}$.", False),
    (r"\boxed{20 m}", "Take A = 2B and solve for x. " * 9 + r"So it is $\boxed{20}$ percent.", False),
]


@pytest.mark.parametrize(("response", "truth", "right"), BOXES)
def test_boxes_in_a_row_are_a_list(response: str, truth: str, right: bool) -> None:
    assert judge(response, truth)["acc"] == right
