"""Extract a response's answer: after the last "Answer:", else in the last box (\\boxed, \\fbox or \\framebox)."""

import re
import string

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
# opening of an answer of several lines, and its closing
OPENING = re.compile(r"```[A-Za-z]*|\$\$?|\\\[|\\\(|\\begin\{([a-z]+\*?)\}")
DISPLAY = re.compile(r"(?<!\\)(?:\$\$|\\\[)$")
LANGUAGE = string.ascii_letters  # after the fence
CLOSING = {"```": "```", "$$": "$$", "$": "$", "\\[": "\\]", "\\(": "\\)"}


def extract_answer(response: str, boxed_fallback: bool = True) -> str:
    """Return the answer text of `response`, "" without an answer.

    It is the rest of the line after the last "Answer:" or, if that is empty, the next non-empty line; if that line
    opens displayed mathematics or a code fence, all lines up to the closing one. Without "Answer:", and with
    `boxed_fallback`, it is the content of the last box, with the boxes that commas or "and" join to it; "" if the
    response ends inside that box; without a box, that of a last line "The answer is 12." Thoughts before </think> do
    not count if text follows it, and thoughts without </think> never. Only the last 300 characters are read, so the
    cost does not grow with the response.
    """
    if response.rfind(THOUGHTS) > response.rfind(THOUGHT):  # the limit cut them off
        return ""
    tail = response[-TAIL_CHARS:].encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"
    thoughts, _, conclusion = tail.rpartition(THOUGHT)
    tail = conclusion if conclusion.strip() else thoughts
    marks = list(ANSWER_MARK.finditer(tail))
    if marks:
        return SIGN_OFF.sub("", stated_answer(tail[marks[-1].end() :]))
    if not boxed_fallback:
        return ""
    if BOX.search(tail):
        return boxed_list(tail)
    statement = STATEMENT.match(tail)
    return SIGN_OFF.sub("", statement[1]) if statement else ""


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
    display = DISPLAY.search(first)  # "The value is \["
    if not opening and display and first.count("$$") % 2 == (display[0] == "$$"):
        return stated_answer("\n".join([first[display.start() :], *lines[1:]]))
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


def up_to(end: str, response: str) -> str:
    """Return the answer with which a response to few-shot examples begins: the text before `end`."""
    return response.lstrip().partition(end)[0].strip()


def last_boxed(text: str) -> str | None:
    """Return the content of the last box with closed braces, without dollar signs around it, else None."""
    for box in reversed(list(BOX.finditer(text))):
        if (read := content_of(text, box)) is not None:
            content = read[0].strip()
            return math[1].strip() if (math := IN_DOLLARS.fullmatch(content)) else content
    return None


def boxed_list(text: str) -> str:
    """Return the content of the last box, or a list of it and the boxes joined to it, with their names; else "".

    "" also if the text ends inside the last box, which may have replaced those before it.
    """
    contents, names, begin = [], [], 0
    for box in reversed(list(BOX.finditer(text))):
        read = content_of(text, box)
        if not contents and read is None and (text.startswith("{", box.end()) or box.end() == len(text)):
            return ""
        if contents and (read is None or read[1] > begin or not JOINED.fullmatch(text, read[1], begin)):
            break
        if read is not None:
            name = BOX_NAME.search(text, 0, box.start())
            begin = (name or box).start()
            content = read[0].strip()
            math = IN_DOLLARS.fullmatch(content)
            contents.insert(0, math[1].strip() if math else content)
            names.insert(0, name[0] if name else "")
    if len(contents) < 2:
        return "".join(contents)
    return ", ".join(dict.fromkeys(map("".join, zip(names, contents, strict=True))))


def content_of(text: str, box: re.Match[str]) -> tuple[str, int] | None:
    """Return the content of a box that BOX matched, and the position after it; None if there is none.

    Without braces, the content is the number, letter or command that follows.
    """
    if text.startswith("{", box.end()):
        content = braced(text, box.end())
        return None if content is None else (content, box.end() + len(content) + 2)
    word = UNBRACED.match(text, box.end())
    return (word.group().rstrip(".,;:"), word.end()) if word else None


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
