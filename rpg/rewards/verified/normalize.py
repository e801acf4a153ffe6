"""Normalises answers: markup, LaTeX spacing, synonyms of commands, sentences.

Everything here works on at most a few hundred characters (see extract.py), so that every pattern is fast.
"""

import re
from functools import lru_cache
from pathlib import Path

from rpg.rewards.extract import BOX, MAX_ANSWER_CHARS, TAIL_CHARS, boxed_list, content_of


def read_table(name: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Return section -> word -> (the first word of its entry, the right side of = or "").

    An entry ends with its line or at a semicolon; lines that begin with # are comments.
    """
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    section: dict[str, tuple[str, str]] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            for entry in line.split(";"):
                words, _, right = entry.partition(" = ")
                section |= dict.fromkeys(words.split(), (words.split()[0], right))
    return sections


def spaced(text: str) -> str:
    """Return LaTeX with a space after a final letter."""
    return text + " " if text[-1].isalpha() else text


SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
# characters with an ASCII equivalent: full-width digits and punctuation, dashes, quotes, brackets, spaces
ASCII = str.maketrans(
    "".join(chr(0xFF10 + digit) for digit in range(10))
    + "\u2212\u2010\u2011\u2012\u2013\u2014\uff0d÷∕⁄⟨⟩′\u2019\u201c\u201d"
    + "\uff0c\u3001\uff1b\uff1a\uff08\uff09\u3002\uff1d\u00a0\u202f\u2009",
    "0123456789" + "-------///()''\"\"" + ",,;:().=   ",
)
TABLES = read_table("synonyms.txt")
CHARACTERS = str.maketrans({word: spaced(right) for word, (_, right) in TABLES["characters"].items()} | {"\u200b": ""})
SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
SCALE = re.compile(rf"(?<=[0-9])\s*(?:\\text\{{)?\s*({'|'.join(SCALES)})(?![a-z])\s*\}}?")
FONTS = "mathbf|mathit|mathsf|mathcal|boldsymbol|bm|textbf|textit|emph|mathstrut|underline"
UPRIGHT = "text|mathrm|textrm|textnormal|mbox|operatorname|textsf|rm"
FONT = re.compile(rf"\\(?:{FONTS})\s*\{{([^{{}}]*)\}}")
WRAPPED = re.compile(rf"\\(?:{UPRIGHT})\*?\s*\{{([^{{}}]*)\}}|\{{\\rm\s+([^{{}}]*)\}}")
WHOLE_TEXT = re.compile(r"\\text\{([^{}]*)\}")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2}")
COMMAND = re.compile(r"\\([A-Za-z]+)")
SYNONYMS = {
    **{word: spaced(right) for word, (_, right) in TABLES["commands"].items()},
    **dict.fromkeys(TABLES["removed commands"], ""),
    **dict.fromkeys(TABLES["commands for a space"], " "),
}
NO_SPACE = re.compile(r",\\!|(?<!\\)\\!|\{,\}|\\allowbreak|\\[hv]?phantom\s*\{[^{}]*\}|\\(?:left|right)\.")
TWICE_ESCAPED = re.compile(r"\\(?=\\[A-Za-z]{2})|\\n(?![A-Za-z])")  # \\frac and \n, as in JSON
THIN_SPACE = re.compile(r"(?<!\\)\\[,;: ]|(?!^)~|\\q?quad")  # "~33" is about 33
EMPHASIS = re.compile(r"(?<![\w)}])\*\*([^*]+)\*\*(?![\w(])")  # no power
MONEY = re.compile(r"^([-+]?)\$(?=[0-9.])")
OVER = re.compile(r"\{([^{}]*)\\(over|choose)(?![a-z])([^{}]*)\}")
UNBRACED = re.compile(r"\\(sqrt(?:\[[0-9]+\])?|mathbb|pmod)\s*([A-Z]|[0-9]+(?:\.[0-9]+)?)")  # √13 is not √1 3
PLAIN_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt(?=\s*[({])")
PLAIN_WORDS = "pi|theta|alpha|beta|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|ln|log|exp|infinity|inf"
PLAIN_COMMAND = re.compile(rf"(?<![\\A-Za-z{{])({PLAIN_WORDS})(?![A-Za-z])")
SIGNED_INFINITY = re.compile(r"(^|[(\[,{=<>]\s*|\\[lg]e\s*|\\to\s*)\+\s*(?=\\infty)")

# "The value of n is 12", "12 is the answer"; a remark about the answer must not revoke it
LEAD = re.compile(
    r"(?![0-9])(?:[A-Za-z',\\{}$_^0-9() -]*\s)?(?:is|are|equals|be|[Ii]t's)"
    r"(?:\s+(?:equal to|given by|exactly|just|simply))?\s*:?\s+(?=\S)"
)
LEAD_WORDS = re.compile(
    r"(?i:so|thus|hence|therefore|final answer|the answer|answer|exactly|option|choice|"
    r"we (?:find|get|have|obtain)(?: that)?)[,:]?\s+(?=[^a-z]|[a-z](?![a-z])(?!\s+[a-z]{2}))"
)
TRAIL = re.compile(
    r"\s+(?:is|are)\s+(?:the|our)(?:\s+(?:final|correct|required|desired))?\s+(?:answers?|values?|solutions?|results?)$"
)
DOUBT = re.compile(
    r"\b(?:no|not|\w+n't|never|neither|nor|either|cannot|unless|if|except|than|least|most|about|around|maybe|"
    r"perhaps|possibly|probably|might|may|could|wrong|incorrect|false|or|and|but|between|approximately|roughly|"
    r"nearly|almost|other|what|which|whether|unknown|guess|impossible|minus|plus|without|half|twice|suppose|assume|"
    r"claims?)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)  # a group shares its truth and many answers
def normalize(text: str) -> str:
    """Return `text` without markup, delimiters, LaTeX spacing, lead-in and end punctuation."""
    text = raise_indices(text).translate(ASCII).translate(CHARACTERS)
    if text.replace("\\$", "").count("$") % 2:  # unpaired delimiters
        text = MONEY.sub(r"\1\\$", text)
    text = THIN_SPACE.sub(" ", NO_SPACE.sub("", unwrap(text)))
    text = text.replace("\\not=", "\\ne ").replace("<=", "\\le ").replace(">=", "\\ge ").replace("!=", "\\ne ")
    text = COMMAND.sub(_synonym, text)
    text = WRAPPED.sub(_as_text, text)
    text = strip_ends(strip_sentence(strip_ends(text)))
    text = OVER.sub(lambda match: f"\\{'frac' if match[2] == 'over' else 'binom'}{{{match[1]}}}{{{match[3]}}}", text)
    text = UNBRACED.sub(r"\\\1{\2}", PLAIN_ROOT.sub(r"\\sqrt", text))
    text = re.sub(r"\.{3,}", r"\\ldots ", text)
    text = PLAIN_COMMAND.sub(_as_command, text)
    text = SCALE.sub(lambda match: f" \\cdot 10^{{{SCALES[match[1]]}}} ", text)
    text = SIGNED_INFINITY.sub(r"\1", text)
    return " ".join(text.split())


def bare_truth(text: str) -> str:
    """Return a truth without JSON's escapes; of a sentence or solution, or several boxes, the boxes if one list."""
    if "\\begin" not in text:  # there, \\ ends a row
        text = TWICE_ESCAPED.sub("", text)
    boxes = list(BOX.finditer(text))
    is_sentence = bool(boxes) and (len(text) > MAX_ANSWER_CHARS or WORD.search(text[: boxes[0].start()]) is not None)
    if len(boxes) > 1 or is_sentence:
        last = content_of(text, boxes[-1])
        contents = {read[0].strip() for box in boxes if (read := content_of(text, box)) is not None}
        listed = boxed_list(text[-TAIL_CHARS:])
        is_whole = len(", ".join(contents)) <= len(listed) and all(content in listed for content in contents)
        if is_whole and last is not None and not WORD.search(text, last[1]):  # a word after it may be a unit
            return listed
    return text


def raise_indices(text: str) -> str:
    """Write unicode exponents and indices as LaTeX: 10² becomes 10^{2}, x₁ becomes x_{1}."""
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda run: "^{" + run.group().translate(SUPERSCRIPTS) + "}", text)
    return re.sub(r"[₀₁₂₃₄₅₆₇₈₉]+", lambda run: "_{" + run.group().translate(SUBSCRIPTS) + "}", text)


def unwrap(text: str) -> str:
    """Remove the delimiters of mathematics, boxes and fonts, and keep their content.

    Keeps the text around mathematics: "$33$ is not the value" is not 33.
    """
    text = text.replace("\\$", "\0")
    text = text.replace("$", "" if text.count("$") % 2 == 0 else "$")
    for delimiter in ("\\(", "\\)"):
        text = text.replace(delimiter, "")
    text = re.sub(r"\\(?:begin|end)\{(?:equation|displaymath|math)\*?\}|\\(?:text)?color\s*\{[^{}]*\}", "", text)
    text = re.sub(r"(?<!\\)\\[\[\]]", "", text).replace("`", "")
    text = EMPHASIS.sub(r"\1", text)
    while (box := BOX.search(text)) and (read := content_of(text, box)) is not None:
        content, end = read
        text = text[: box.start()] + content + text[end:]
    previous = None
    while text != previous:
        previous, text = text, FONT.sub(r"\1", text)
    return text.replace("\0", "\\$")


def strip_ends(text: str) -> str:
    """Strip emphasis, quotes, end punctuation and a wrapper of the whole text, outside in."""
    previous = None
    while text != previous:
        previous = text
        text = text.strip(' \t\r\n*_`"$').removesuffix("\\").strip()
        if not text.endswith("..."):
            text = text.rstrip(".,;:")
        if text.startswith("'") and text.endswith("'"):
            text = text[1:-1]
        wrapped = WHOLE_TEXT.fullmatch(text)
        if wrapped:
            text = wrapped.group(1)
    return text


def strip_sentence(text: str) -> str:
    """Return the answer in a plain sentence, else the text unchanged.

    "The value is 12" gives 12; a sentence with a word of doubt or denial stays unchanged.
    """
    plain = " ".join(WHOLE_TEXT.sub(r" \1 ", text).split())
    leads = (LEAD, LEAD_WORDS)
    if match := TRAIL.search(plain):
        plain = text = plain[: match.start()]
        leads = (LEAD_WORDS,)
    for pattern in leads:
        match = pattern.match(plain)
        if match and not DOUBT.search(match.group()):
            plain = text = plain[match.end() :]
    return text


def _synonym(match: re.Match[str]) -> str:
    return SYNONYMS.get(match[1], match.group())


def _as_text(match: re.Match[str]) -> str:
    content = " ".join((match[1] or match[2] or "").split())
    return f"\\text{{{content}}}" if any(map(str.isalnum, content)) or "\\" in content else f" {content} "


def _as_command(match: re.Match[str]) -> str:
    return "\\infty " if match[1].startswith("inf") else f"\\{match[1]} "
