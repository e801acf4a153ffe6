"""Extract a response's answer: after the last "Answer:", else in the last box (\\boxed, \\fbox or \\framebox)."""

import re
from collections.abc import Mapping
from typing import Any

ANSWER_END = "answer_end"  # of a few-shot row's extra_info: the text that ends an answer
TAIL_CHARS = 300  # only the end of a response is read, as in DAPO's score and verl's
MAX_ANSWER_CHARS = 200  # the longest answer of MATH-500 has 159 characters

# "Answer:", "**Answer:**", "**Answer**:", "Final answer :", with an ASCII or a full-width colon
ANSWER_MARK = re.compile(r"(?<![a-z])answer[*_ \t]{0,4}[:\uff1a][*_ \t]*", re.IGNORECASE)
# "So the answer is 12.", as the last sentence; nothing before it may revoke it
STATEMENT = re.compile(
    r"(?:(?s:.*)[.!?:\n]\s*|)[*_ \t]*(?:(?:so|thus|hence|therefore),?\s+)?(?:the|my|our)\s+"
    r"(?:(?:final|correct)\s+)?answer\s+is\b[*_: \t]*(\S[^\n]*)\s*$",
    re.IGNORECASE,
)
# after the answer: the end of Minerva's prompt, and markers of a chat's turns
SIGN_OFF = re.compile(
    r"(?:\s*I hope (?:it|this) is correct[.!]?)?\s*(?:<\|[^|<>]+\|>\s*(?:user|assistant)?\s*)*$", re.IGNORECASE
)
THOUGHTS, THOUGHT = "<think>", "</think>"  # begin and end of a reasoning model's thoughts
# a box up to its content: \boxed{7}, \fbox {7}, \framebox[2cm]{7}, \boxed 7; "\boxed form" is none
BOX = re.compile(r"\\(?:boxed|fbox|framebox(?:\s*\[[^][]*\])*)(?![A-Za-z])\s*")
UNBRACED = re.compile(
    r"\\[A-Za-z]+[^\s$]*|[A-Za-z](?![A-Za-z])|[-+(]?[0-9][^\s$\\{}]*"
)  # not the word in "\boxed form"
# what may stand between the boxes of one list, and the name before a box: y_1 = \boxed{7}
AND = r"[,;&]|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
BLANK = r"[\s$]|\\[()\[\],;: ]|\\q?quad(?![a-z])"
JOINED = re.compile(rf"(?:{BLANK})*(?:{AND})(?:{BLANK}|{AND})*|")
BOX_NAME = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?:_(?:\w|\{\w+\}))?\s*=\s*$")
IN_DOLLARS = re.compile(r"\$([^$]*)\$")
# an answer of several lines from its opening to its closing, and the rest of that line; an opening alone
BLOCK = re.compile(
    r"(?s)(?:```[A-Za-z]*(?P<fenced>.*?)```|\$\$.*?\$\$|\$[^$]*\$|\\\[.*?\\\]|\\\(.*?\\\)|"
    r"\\begin\{([a-z]+\*?)\}.*?\\end\{\2\})[^\n]*"
)
OPENING = re.compile(r"(?:```[A-Za-z]*|\$\$?|\\\[|\\\()\s*\n")
LEADING = re.compile(r"(?:[ \t*_]*\n)*[ \t*]*(?:[^\n$]*?(?=(?<!\\)(?:\$\$|\\\[)\n))?")  # also "The value is" before \[


def extract_answer(response: str) -> str:
    """Return the answer text of `response`, "" without an answer.

    It is the rest of the line after the last "Answer:" or, if that is empty, the next non-empty line; if that line
    opens displayed mathematics or a code fence, all lines up to the closing one. Without "Answer:" it is the content of
    the last box, with the boxes that commas or "and" join to it; "" if the response ends inside that box; without a
    box, that of a last line "The answer is 12." Thoughts before </think> do not count if text follows it, and thoughts
    without </think> never. Only the last 300 characters are read, so the cost does not grow with the response.
    """
    if response.rfind(THOUGHTS) > response.rfind(THOUGHT):  # the limit cut them off
        return ""
    tail = response[-TAIL_CHARS:].encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"
    thoughts, _, conclusion = tail.rpartition(THOUGHT)
    tail = conclusion if conclusion.strip() else thoughts
    if marks := list(ANSWER_MARK.finditer(tail)):
        return SIGN_OFF.sub("", stated_answer(tail[marks[-1].end() :]))
    if BOX.search(tail):
        return boxed_list(tail)
    statement = STATEMENT.match(tail)
    return SIGN_OFF.sub("", statement[1]) if statement else ""


def stated_answer(text: str) -> str:
    """Return the answer at the start of the text after "Answer:" as one line, "" if nothing follows."""
    text = LEADING.sub("", "\n".join(text.splitlines()), count=1)
    if (block := BLOCK.match(text)) and "\n" in block[0]:
        text = block[0] if block["fenced"] is None else block["fenced"]
    elif opening := OPENING.match(text):  # never closed
        return stated_answer(text[opening.end() :])
    else:
        line, *lines = text.splitlines() or [""]
        while line.count("{") > line.count("}") and lines:  # \boxed{ alone on its line
            line += f" {lines.pop(0)}"
        text = line
    return " ".join(text.split()).strip("* ")


def few_shot_answer(response: str, extra_info: Mapping[str, Any] | None) -> str | None:
    """Return the answer that begins the response to a few-shot prompt; None for another prompt."""
    end = (extra_info or {}).get(ANSWER_END)
    return response.lstrip().partition(end)[0].strip() if end else None


def few_shot_response(answer: str, extra_info: Mapping[str, Any] | None) -> str | None:
    """Return the response to a few-shot prompt that has this answer; None for another prompt."""
    end = (extra_info or {}).get(ANSWER_END)
    return f" {answer}{end}" if end else None


def last_boxed(text: str) -> str | None:
    """Return the content of the last box with closed braces, without dollar signs around it, else None."""
    return found[-1][1] if (found := boxes(text)) else None


def boxed_list(text: str) -> str:
    """Return the content of the last box, or a list of it and the boxes joined to it, with their names; else "".

    "" also if the text ends inside the last box, which may have replaced those before it.
    """
    ends = [box.end() for box in BOX.finditer(text)]
    if not ends or ends[-1] == len(text) or (text[ends[-1]] == "{" and braced(text, ends[-1]) is None):
        return ""
    items: list[tuple[str, str]] = []
    begin = len(text)
    for start, content, end in reversed(boxes(text)):
        if items and (end > begin or not JOINED.fullmatch(text, end, begin)):
            break
        name = BOX_NAME.search(text, 0, start)
        begin = name.start() if name else start
        items.insert(0, (name[0] if name else "", content))
    if len(items) < 2:
        return "".join(content for _, content in items)
    return ", ".join(dict.fromkeys(map("".join, items)))


def boxes(text: str) -> list[tuple[int, str, int]]:
    """Return the start, content and end of each box; without braces, the number, letter or command that follows."""
    found = []
    for box in BOX.finditer(text):
        content, end = braced(text, box.end()), box.end()
        if content is not None:
            end += len(content) + 2
        elif word := UNBRACED.match(text, end):
            content, end = word[0].rstrip(".,;:"), word.end()
        if content is not None:
            math = IN_DOLLARS.fullmatch(content.strip())
            found.append((box.start(), (math[1] if math else content).strip(), end))
    return found


def braced(text: str, start: int) -> str | None:
    """Return the text between the brace at `start` and its closing brace, else None."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[start + 1 : position] if position > start else None
    return None
