"""Extract a response's answer: after the last "Answer:", else in the last \\boxed{}."""

import re
import string

TAIL_CHARS = 300  # only the end of a response is read, as in DAPO's score and verl's
MAX_ANSWER_CHARS = 200  # the longest answer of MATH-500 has 159 characters

# "Answer:", "**Answer:**", "**Answer**:", "Final answer :", with an ASCII or a full-width colon
ANSWER_MARK = re.compile(r"(?<![a-z])answer[*_ \t]{0,4}[:\uff1a][*_ \t]*", re.IGNORECASE)
BOXED = "\\boxed{"
# opening of an answer of several lines, and its closing
OPENING = re.compile(r"```[A-Za-z]*|\$\$?|\\\[|\\\(|\\begin\{([a-z]+\*?)\}")
LANGUAGE = string.ascii_letters  # after the fence
CLOSING = {"```": "```", "$$": "$$", "$": "$", "\\[": "\\]", "\\(": "\\)"}


def extract_answer(response: str, boxed_fallback: bool = True) -> str:
    """Return the answer text of `response`, "" without an answer.

    It is the rest of the line after the last "Answer:" or, if that is empty, the next non-empty line; if that line
    opens displayed mathematics or a code fence, all lines up to the closing one. Without "Answer:", and with
    `boxed_fallback`, it is the content of the last \\boxed{}. Only the last 300 characters are read, so the cost does
    not grow with the response.
    """
    tail = response[-TAIL_CHARS:].encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"
    marks = list(ANSWER_MARK.finditer(tail))
    if marks:
        return stated_answer(tail[marks[-1].end() :])
    if boxed_fallback:
        return last_boxed(tail) or ""
    return ""


def stated_answer(text: str) -> str:
    """Return the answer at the start of the text after "Answer:" as one line, "" if nothing follows."""
    lines = text.splitlines()
    while lines and not lines[0].strip(" \t*_"):
        lines.pop(0)
    if not lines:
        return ""
    first = lines[0].strip(" \t*")
    while first.count("{") > first.count("}") and len(lines) > 1:  # \boxed{ alone on its line
        first = f"{first} {lines.pop(1)}".strip(" \t*")
    opening = OPENING.match(first)
    if not opening:
        return first
    rest = "\n".join([first[opening.end() :], *lines[1:]])
    closing = "\\end{" + opening[1] + "}" if opening[1] else CLOSING[opening[0].rstrip(LANGUAGE)]
    end = rest.find(closing)
    if end < 0 or "\n" not in rest[:end]:
        # closed on its own line, or never: an opener alone is not an answer, but the next line may be
        return first if first != opening[0] or opening[1] else stated_answer("\n".join(lines[1:]))
    content = rest[:end]
    after = rest[end + len(closing) :].split("\n", 1)[0]
    if opening[1]:  # the environment is part of the mathematics
        content = opening[0] + content + closing
    return " ".join(f"{content} {after}".split()).strip(" \t*")


def last_boxed(text: str) -> str | None:
    """Return the content of the last \\boxed{...} with closed braces, else None."""
    start = text.rfind(BOXED)
    while start >= 0:
        content = braced(text, start + len(BOXED) - 1)
        if content is not None:
            return content.strip()
        start = text.rfind(BOXED, 0, start)
    return None


def braced(text: str, start: int) -> str | None:
    """Return the text between the brace at `start` and its closing brace, else None."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : position]
    return None
