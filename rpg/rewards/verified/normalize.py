"""Normalises answers of a few hundred characters: markup, LaTeX spacing, synonyms of commands, sentences."""

import html
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from rpg.rewards.extract import MAX_ANSWER_CHARS, TAIL_CHARS, boxed_list, boxes


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


# dashes, quotes and brackets with an ASCII equivalent; Unicode itself knows that of full-width ones
ASCII = str.maketrans(
    "\u2212\u2010\u2011\u2012\u2013\u2014\u2015÷∕⁄⟨⟩′\u2019\u201c\u201d\u3001\u3002", "-------///()''\"\",."
)
RAISED, LOWERED = (
    re.compile(
        f"[{''.join(chr(n) for n in range(0xB2, 0x2100) if unicodedata.decomposition(chr(n)).startswith(kind))}]+"
    )
    for kind in ("<super>", "<sub>")
)
VULGAR = re.compile("[¼-¾⅐-⅞]")  # ½
CIRCLED = re.compile(r"(?:[,\s]*[①-⑳])+")
CIRCLED_LATEX = re.compile(r"\\textcircled\s*\{\s*([1-9]|1[0-9]|20)\s*\}")
ENTITY = re.compile(r"&(?:[A-Za-z]+|#[0-9]{1,6});")
TAG = re.compile(r"<(sup|sub|b|i|em|strong|span|p|div)(?: [^<>]*)?>([^<>]*)</\1>|<br ?/?>")
TABLES = read_table("synonyms.txt")


def one_of(section: str) -> str:
    """Return the regular expression for any word of a section of synonyms.txt."""
    return "|".join(TABLES[section])


CHARACTERS = str.maketrans({word: spaced(right) for word, (_, right) in TABLES["characters"].items()} | {"\u200b": ""})
SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
SCALE = re.compile(rf"(?<=[0-9])\s*(?:\\text\{{)?\s*({'|'.join(SCALES)})(?![a-z])\s*\}}?")
FONT = re.compile(rf"\\(?:{one_of('fonts')})\s*\{{([^{{}}]*)\}}")
WRAPPED = re.compile(rf"\\(?:{one_of('upright')})\*?\s*\{{([^{{}}]*)\}}|\{{\\rm\s+([^{{}}]*)\}}")
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
MONEY = re.compile(r"(?<![\\$])\$(?=[0-9.])")
OVER = re.compile(r"\{([^{}]*)\\(over|choose)(?![a-z])([^{}]*)\}")
UNBRACED = re.compile(r"\\(sqrt(?:\[[0-9]+\])?|mathbb|pmod)\s*([A-Z]|[0-9]+(?:\.[0-9]+)?)")  # √13 is not √1 3
PLAIN_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt(?=\s*[({])")
PLAIN_COMMAND = re.compile(rf"(?<![\\A-Za-z{{])({one_of('plain commands')})(?![A-Za-z])")
SIGNED_INFINITY = re.compile(r"(^|[(\[,{=<>]\s*|\\[lg]e\s*|\\to\s*)\+\s*(?=\\infty)")

ORDINAL = re.compile(r"^([0-9]+)(?:\^\s*)?(?:\{?\s*\\text)?\s*\{?(?:st|nd|rd|th)(?![A-Za-z])\}*")  # 15th day

# "The value of n is 12", "12 is the answer"; a remark about the answer must not revoke it
LEAD = re.compile(
    r"(?![0-9])(?:[A-Za-z',\\{}$_^0-9()+|/ -]*\s)?(?:is|are|equals|be|[Ii]t's)"
    r"(?:\s+(?:equal to|given by|exactly|just|simply))?\s*:?\s+(?=\S)"
)
LEAD_WORDS = re.compile(
    r"(?i:so|thus|hence|therefore|final answer|the answer|answer|exactly|option|choice|"
    r"we (?:find|get|have|obtain)(?: that)?)[,:]?\s+(?=[^a-z]|[a-z](?![a-z])(?!\s+[a-z]{2}))"
)
TRAIL = re.compile(
    r"\s+(?:is|are)\s+(?:the|our)(?:\s+(?:final|correct|required|desired))?\s+(?:answers?|values?|solutions?|results?)$"
)
SPOKEN = re.compile(r"(?:yes|no)(?=[,.;] )", re.IGNORECASE)  # and a reason
DOUBT = re.compile(rf"\b(?:{one_of('doubt')})\b", re.IGNORECASE)


@lru_cache(maxsize=4096)  # a group shares its truth and many answers
def normalize(text: str) -> str:
    """Return `text` without markup, delimiters, LaTeX spacing, lead-in and end punctuation."""
    text = _from_unicode(_from_html(text))
    if text.replace("\\$", "").count("$") % 2:  # unpaired delimiters
        text = MONEY.sub(r"\\$", text)
    text = THIN_SPACE.sub(" ", NO_SPACE.sub("", unwrap(text)))
    text = text.replace("\\not=", "\\ne ").replace("<=", "\\le ").replace(">=", "\\ge ").replace("!=", "\\ne ")
    text = COMMAND.sub(lambda command: SYNONYMS.get(command[1], command[0]), text)
    text = WRAPPED.sub(_as_text, text)
    text = strip_ends(strip_sentence(strip_ends(text)))
    text = OVER.sub(lambda match: f"\\{'frac' if match[2] == 'over' else 'binom'}{{{match[1]}}}{{{match[3]}}}", text)
    text = UNBRACED.sub(r"\\\1{\2}", PLAIN_ROOT.sub(r"\\sqrt", text))
    text = re.sub(r"\.{3,}", r"\\ldots ", text)
    text = PLAIN_COMMAND.sub(lambda word: "\\infty " if word[1] in ("infinity", "inf", "oo") else f"\\{word[1]} ", text)
    text = SCALE.sub(lambda match: f" \\cdot 10^{{{SCALES[match[1]]}}} ", text)
    text = SIGNED_INFINITY.sub(r"\1", text)
    return ORDINAL.sub(r"\1", " ".join(text.split()))


def bare_truth(text: str) -> str:
    """Return a truth without JSON's escapes; of a sentence or solution, or several boxes, the boxes if one list."""
    if "\\begin" not in text:  # there, \\ ends a row
        text = TWICE_ESCAPED.sub("", text)
    found = boxes(text)
    if found and (len(found) > 1 or len(text) > MAX_ANSWER_CHARS or WORD.search(text[: found[0][0]])):
        listed, contents = boxed_list(text[-TAIL_CHARS:]), {content for _, content, _ in found}
        is_whole = len(", ".join(contents)) <= len(listed) and all(content in listed for content in contents)
        if is_whole and not WORD.search(text, found[-1][2]):  # a word after it may be a unit
            return listed
    return text


def _from_html(text: str) -> str:
    """Write x<sup>2</sup> as x^{2}, &le; as its character, and drop tags of fonts and paragraphs."""
    text = ENTITY.sub(lambda entity: html.unescape(entity.group()), text)
    signs = {"sup": "^{%s}", "sub": "_{%s}", None: " "}
    return TAG.sub(lambda tag: signs.get(tag[1], "%s").replace("%s", tag[2] or ""), text)


def _from_unicode(text: str) -> str:
    """Write characters as LaTeX or ASCII: 10² as 10^{2}, x₁ as x_{1}, ①③ as the list 1, 3."""
    text = CIRCLED_LATEX.sub(lambda number: chr(0x245F + int(number[1])), text)
    if text.isascii():
        return text
    text = CIRCLED.sub(lambda run: ", ".join(str(ord(c) - 0x245F) for c in run.group() if c > "\x7f"), text)
    text = text.translate(CHARACTERS)
    text = VULGAR.sub(lambda one: "\\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", one[0]).split("⁄")), text)
    text = LOWERED.sub(r"_{\g<0>}", RAISED.sub(r"^{\g<0>}", text))
    return unicodedata.normalize("NFKC", text).translate(CHARACTERS).translate(ASCII)


def unwrap(text: str) -> str:
    """Remove delimiters of mathematics, boxes and fonts, but no text: "$33$ is not the value" is not 33."""
    text = text.replace("\\$", "\0")
    text = text.replace("$", "" if text.count("$") % 2 == 0 else "$")
    text = re.sub(r"\\(?:begin|end)\{(?:equation|displaymath|math)\*?\}|\\(?:text)?color\s*\{[^{}]*\}", "", text)
    text = re.sub(r"\\[()]|(?<!\\)\\[\[\]]", "", text).replace("`", "")
    text = EMPHASIS.sub(r"\1", text)
    while found := boxes(text):
        start, content, end = found[0]
        text = text[:start] + content + text[end:]
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
        text = WHOLE_TEXT.sub(r"\1", text) if WHOLE_TEXT.fullmatch(text) else text
    return text


def strip_sentence(text: str) -> str:
    """Return the 12 of "The value is 12", without doubt or denial, else the text unchanged."""
    plain = " ".join(WHOLE_TEXT.sub(r" \1 ", text).split())
    if spoken := SPOKEN.match(plain):
        return spoken[0]
    leads = (LEAD, LEAD_WORDS)
    if match := TRAIL.search(plain):
        plain = text = plain[: match.start()]
        leads = (LEAD_WORDS,)
    for pattern in leads:
        match = pattern.match(plain)
        if match and not DOUBT.search(match.group()):
            plain = text = plain[match.end() :]
    return text


def _as_text(match: re.Match[str]) -> str:
    content = " ".join((match[1] or match[2] or "").split())
    return f"\\text{{{content}}}" if any(map(str.isalnum, content)) or "\\" in content else f" {content} "
