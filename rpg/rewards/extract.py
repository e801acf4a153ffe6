"""A response's answer: after the last "Answer:", in the last box (\\boxed or \\fbox), ...; responses to try a judge."""

import re
from collections.abc import Mapping
from typing import Any

from rpg.diagnostics import UserError

ANSWER_END = "answer_end"  # of a few-shot row's extra_info: the text that ends an answer
TAIL_CHARS = 300  # only the end of a response is read, as in DAPO's score and verl's

# "Answer:", "**Answer:**", "**Answer**:", "Final answer :", with an ASCII or a full-width colon
ANSWER_MARK = re.compile(r"(?<![a-z])answer[*_ \t]{0,4}[:\uff1a][*_} \t]*", re.IGNORECASE)
# "So the answer is 12.", as the last sentence; nothing before it may revoke it
STATEMENT = re.compile(
    r"(?:(?s:.*)[.!?:\n]\s*|)[*_ \t]*(?:(?:so|thus|hence|therefore),?\s+)?(?:the|my|our)\s+"
    r"(?:(?:final|correct)\s+)?answer\s+is\b[*_: \t]*(\S[^\n]*)\s*$",
    re.IGNORECASE,
)
TAGGED = re.compile(r"<answer>(?!.*<answer>)(.*)</answer>\s*$", re.DOTALL)
GSM8K_MARK = "####"  # the last line of GSM8K's answers: "#### 72"
LAST_LINE = re.compile(rf"(?:^|\n){GSM8K_MARK}[ \t]+(\S[^\n]*)$")
# as Minerva's prompt asks for; a tokenizer's end
SIGN_OFF = re.compile(r"\s*(?:(?:I hope (?:it|this) is correct[.!]?|<\|[a-z_]+\|>|</s>)\s*)+$", re.IGNORECASE)
THOUGHTS, THOUGHT = "<think>", "</think>"  # begin and end of a reasoning model's thoughts
# a box up to its content: y_1 = \boxed{7}, \fbox {7}, \boxed 7; "\boxed form" is none
BOX = re.compile(r"(?P<name>(?<![A-Za-z\\])[A-Za-z](?:_(?:\w|\{\w+\}))?\s*=\s*)?\\(?:boxed|fbox)(?![A-Za-z])\s*")
CUT_OFF = re.compile(rf"{BOX.pattern}(?:\{{|$)")  # it may replace the boxes before it
UNBRACED = re.compile(r"\\[A-Za-z]+[^\s$]*|[A-Za-z](?![A-Za-z])|[-+(]?[0-9][^\s$\\{}]*")
# between the boxes of one list
JOINED = re.compile(r"(?:[\s$,;&]|\\[()\[\],;: ]|\\q?quad|\\text\s*\{[\s,]*(?:and|or)\s*\}|and|or)*")
# what makes a box a part of a formula or list: 5 + \boxed{3}, $8, \boxed{3}$; \boxed{3}\pi, \boxed{3} \times 10^4
FUNCTION = r"(?:sqrt|ln|log|sin|cos|tan)(?![a-z])(?:_\w|_\{[^{}]*\})?"
BEFORE = re.compile(
    rf"(?:[-−±+/^0-9]|[\w)}}] *[+/×÷·] *|(?<![<\w/])[\w)}}] *[<>] *|\\(?:times|cdot|div|pm|neq?|{FUNCTION}) *|"
    r"\\(?:d?frac(?: *\{[^{}]*\})?|sqrt) *\{|[\]^_]\{|[$(\[] *(?:-?[0-9]+ *, *)+)$"
)
BEHIND = re.compile(
    rf"(?:\\right *\))?(?:(?:\\[,;:!]| )*(?:[-−±+/*×÷·] *(?:[0-9]|[b-zB-HJ-Z](?![A-Za-z])|\\(?:d?frac|sqrt|pi))|"
    rf"\\(?:times|cdot|div|pi|theta|pm|d?frac|{FUNCTION})(?![a-z]))|,? or [0-9]|_ *\{{? *[0-9]|"
    r"\} *\{|\^(?! *\{? *\\circ *\}?(?! *[0-9]))|[abefijknpqru-z](?![A-Za-z])|[.,]?[0-9]| *: *[0-9\\]|"
    r", *-?[0-9]+ *\\?[)}$\]]|!(?= *(?:\$|\\[)\]]))|[²³¹⁰⁴-⁹¼-¾⅐-⅞]|"
    r"\$? *(?:is (?:not|wrong|incorrect)|(?:\\text *\{ *)?(?:dozen|hundred|thousand|[mb]illion))\b)"
)
PERCENT = re.compile(r"\$? *(?:\\, *)?\\?%")  # \boxed{50}\% is \boxed{50\%}
IN_DOLLARS = re.compile(r"^\$\s*([^$]*?)\s*\$$")
BULLET = re.compile(r"^\s*\n\s*(?:[-*•>]|[0-9]+\.)[ \t]+")  # of the line after "Answer:"; - 27 there is 27
BOLD = re.compile(r"(?<!\S)\*\*(?=\S)|(?<=\S)\*\*(?![\w(\\])")  # 2**3 is a power
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
FENCE = re.compile(r"```[A-Za-z]+$")
OPENING, CLOSING = re.compile(r"\{|\\begin|(?<!\\)\\[(\[]"), re.compile(r"\}|\\end|(?<!\\)\\[)\]]")

WRONG = "no such answer"
# forms of an answer, by the sign of a prompt that asks for it
ANSWER_FORMS = {
    f'after "{GSM8K_MARK}"': f"{GSM8K_MARK} ANSWER",  # verl's GSM8K
    "<answer>": "<answer>ANSWER</answer>",
    "boxed": "\\boxed{ANSWER}",
    "Answer:": "Answer: ANSWER",
}


def extract_answer(response: str) -> str:
    """Return the answer text of `response`, "" without an answer.

    It is the rest of the line after the last "Answer:" or, if that is empty, the next non-empty line, up to the end of
    the mathematics, brace or code fence that it opens. Without "Answer:" it is the content of the last box, with the
    boxes that commas or "and" join to it; "" if the response ends inside that box, or the box is a part of a formula;
    without a box, that of a last line "The answer is 12." or "#### 12". If the response ends with <answer>...</answer>,
    only its content is read, which may be the answer itself. Thoughts before </think> do not count if text follows it,
    and thoughts without </think> never.
    Only the last 300 characters are read, so the cost does not grow with the response.
    """
    if response.rfind(THOUGHTS) > response.rfind(THOUGHT):  # the limit cut them off
        return ""
    thoughts, _, conclusion = response[-TAIL_CHARS:].rpartition(THOUGHT)
    tail = SIGN_OFF.sub("", conclusion if conclusion.strip() else thoughts)
    if tagged := TAGGED.search(tail):
        tail = tagged[1].strip()
    inside = [range(start, end) for start, _, _, end in boxes(tail)]  # \boxed{\text{Answer: } 7}
    if marks := [mark for mark in ANSWER_MARK.finditer(tail) if not any(mark.start() in box for box in inside)]:
        return stated_answer(tail[marks[-1].end() :])
    if BOX.search(tail):
        return boxed_list(tail)
    statement = STATEMENT.match(tail) or LAST_LINE.search(tail.rstrip())
    return statement[1] if statement else tail if tagged else ""


def stated_answer(text: str) -> str:
    """Return the answer at the start of the text after "Answer:" as one line, "" if nothing follows."""
    answer = ""
    for line in BULLET.sub("", text).splitlines():
        answer = f"{answer} {FENCE.sub('```', line)}".strip("*_ \t")
        is_open = len(OPENING.findall(answer)) > len(CLOSING.findall(answer)) or answer == "$"
        if answer and not is_open and not answer.count("$$") % 2 and not answer.count("```") % 2:
            break
    return " ".join(BOLD.sub("", answer).split())


def few_shot_answer(response: str, extra_info: Mapping[str, Any] | None) -> str | None:
    """Return the answer that begins the response to a few-shot prompt; None for another prompt."""
    end = (extra_info or {}).get(ANSWER_END)
    return response.lstrip().partition(end)[0].strip() if end else None


def boxed_list(text: str) -> str:
    """Return the content of the last box, or its list of named boxes; "" without a whole one that stands alone."""
    if not (found := boxes(text)) or CUT_OFF.search(text, found[-1][3]):
        return ""
    answer, begin = last_list(text, found)
    if (not found[-1][1] and BEFORE.search(text[:begin])) or BEHIND.match(text, found[-1][3]):
        return ""
    return answer


def last_list(text: str, found: list[tuple[int, str, str, int]]) -> tuple[str, int]:
    """Return the content of the last box, or the list of named boxes that commas, "and" or "or" join, and its start.

    found: the boxes of the text.
    """
    items, begin = list[str](), len(text)
    for start, name, content, end in reversed(found):
        if items and not JOINED.fullmatch(text, end, begin):
            break
        begin = start
        items.insert(0, name + content)
    return ", ".join(dict.fromkeys(items)) if len(items) > 1 else found[-1][2], begin


def boxes(text: str) -> list[tuple[int, str, str, int]]:
    """Return start, name, content (and a % behind) and end of each box; without braces, a number, letter, command."""
    found = []
    for box in BOX.finditer(text):
        if end := end_of_braces(text, box.end()):
            content = text[box.end() + 1 : end - 1].strip()
        elif word := UNBRACED.match(text, box.end()):
            content, end = word[0].rstrip(".,;:"), word.end()
        else:
            continue
        if percent := PERCENT.match(text, end):
            content, end = content + "\\%", percent.end()
        found.append((box.start(), box["name"] or "", IN_DOLLARS.sub(r"\1", content), end))
    return found


def end_of_braces(text: str, start: int) -> int:
    """Return the position after the brace that closes the one at `start`, 0 without such braces; \\{ is none."""
    depth = 0
    for brace in BRACE.finditer(text, start) if text.startswith("{", start) else ():
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.end()
    return 0


def forms_of(prompt: Any) -> list[str]:
    """Return the forms of an answer that a prompt asks for; all if it asks for none."""
    return [form for sign, form in ANSWER_FORMS.items() if sign in str(prompt)] or [*ANSWER_FORMS.values()]


def example(answer: Any, prompt: Any, extra_info: Mapping[str, Any] | None = None) -> str:
    """Return a response with this answer in the form that the prompt asks for; after few-shot examples, that alone."""
    if isinstance(extra_info, str):
        raise UserError(f"extra_info: {extra_info!r:.60} is not a struct; find the rows with `rpg data check FILE`")
    answer = int(answer) if isinstance(answer, float) and answer.is_integer() else answer  # as a model writes 27.0
    if end := (extra_info or {}).get(ANSWER_END):
        return f" {answer}{end}"
    return "\n\n".join(["Step by step.", *(form.replace("ANSWER", str(answer)) for form in forms_of(prompt))])


def blind_to(prompt: Any) -> str:
    """Return why right and wrong answers may score alike, for a message."""
    asked = " and ".join(forms_of(prompt))
    return f"the reward may not see the form that the prompt asks for ({asked}), or the truth is no answer but tests"
