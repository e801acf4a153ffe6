"""Normalises answers of a few hundred characters: markup, LaTeX spacing, synonyms of commands, sentences."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from rpg.rewards.extract import boxed_list, boxes, end_of_braces


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


TABLES = read_table("synonyms.txt")


def spellings(section: str) -> dict[str, str]:
    """Return word -> spelling of a section of synonyms.txt, with a space after a final letter."""
    return {word: right + " " * right[-1].isalpha() for word, (_, right) in TABLES[section].items()}


def one_of(section: str) -> str:
    """Return the regular expression for any word of a section of synonyms.txt."""
    return "|".join(TABLES[section])


CHARACTERS = str.maketrans(spellings("characters") | dict.fromkeys("\u200b✓✔✅", ""))
FONT = re.compile(rf"\\(?:{one_of('fonts')})(?![a-z])\s*")
UPRIGHT = re.compile(rf"\\(?:{one_of('upright')})\*?\s*(?=\{{)")
TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2}")
COMMAND = re.compile(r"\\([A-Za-z]+)")
SYNONYMS = spellings("commands") | dict.fromkeys(TABLES["removed commands"], " ")
TWICE_ESCAPED = re.compile(r"\\(?=\\[A-Za-z]{2})|\\n(?![A-Za-z])")  # \\frac and \n, as in JSON
MONEY = re.compile(r"(?<![\\$])\$(?=[0-9.])")
VULGAR = re.compile("[¼-¾⅐-⅞]")  # ½
# pattern and replacement, in this order
FOREIGN = (
    (r"<sup>([^<>]*)</sup>", r"^{\1}"),
    (r"<sub>([^<>]*)</sub>", r"_{\1}"),
    (r"</?(?:b|i|em|strong|span|p|div|br) ?/?>", " "),
    (r"[₀-ₜᵢ-ᵪ]+", r"_{\g<0>}"),
    (r"[²³¹ˡ-ˣᴬ-ᶿ⁰-ⁿ]+", r"^{\g<0>}"),
    (r"\\textcircled\s*\{([0-9]+)\}|([①-⑳])", r", \1\2"),
)
MARKUP = (
    (r"\{\\rm\s+([^{}]*)\}", r"\\rm{\1}"),
    (r"\\left\s*\\\{\s*\\begin\{array\}\{[lcr ]*\}(.*?)\\end\{array\}\s*\\right\s*\.", r"\\begin{cases}\1\\end{cases}"),
    (r"(?<!\\)\$|\\[()]|(?<!\\)\\[\[\]]|`", ""),
    (r"\\(?:begin|end)\{(?:equation|displaymath|math)\*?\}|\\(?:text)?color\s*\{[^{}]*\}", ""),
    (r"(?:,\\!|\{,\})(?=[0-9]{3}(?![0-9]))|\{(,)\}", r"\1"),  # 1{,}5 is not 15
    (r"(?<!\\)\\!|\\allowbreak|\\(?:[hv]?(?:phantom|space)|tag|label)\*?\s*\{[^{}]*\}|\\(?:left|right)\.", ""),
    (r"(?<![\w)}])\*\*([^*]+)\*\*(?![\w(])", r"\1"),  # emphasis, no power
    (r"(?<!\\)\\[,;: ]|(?!^)~|\\q?quad", " "),  # "~33" is about 33
    (r"\\not=|!=", r"\\ne "),
    (r"(?<![\w)}\]])(?:\{ *\})? *[\^_] *(\{[^{}]*\}|[0-9]+|[a-z]) *C *_ *(\{[^{}]*\}|\w)", r"\\binom{\1}{\2}"),
    (rf"\\(?:{one_of('upright')})\s*\{{\s*(?!sec)({one_of('plain commands')}|(?:arc|c)?tg|lg|[sc]h)\s*\}}", r"\\\1 "),
    ("<=", r"\\le "),
    (">=", r"\\ge "),
    (r"((?:/|[0-9]) *)sec(?=(?:\^[23])?[\s.$}]*$)", r"\1 s"),  # no secant
    (rf"(?<![\\A-Za-z{{])({one_of('plain commands')})(?![A-Za-z])", r"\\\1 "),
)
SPELLINGS = (
    (r"\{([^{}]*)\\over(?![a-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
    (r"\{([^{}]*)\\choose(?![a-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    (r"(?<![\\A-Za-z])sqrt(?=\s*[({0-9])", r"\\sqrt"),
    (r"\\(sqrt(?:\[[0-9]+\])?|mathbb|pmod|bar)\s*([A-Z]|[0-9]+(?:\.[0-9]+)?)", r"\\\1{\2}"),  # √13 is not √1 3
    (r"_\s*([0-9])(?= )", r"_{\1}"),  # \log_2 128 is not \log 2 128
    (r"\.{3,}", r"\\ldots "),
    (r"(\.[0-9]*?)([0-9]+?)\2+ *\\ldots", r"\1\\bar{\2}"),  # 0.1666...
    (r"\\l(and|or) (?=.*(?:[<>=]|\\(?:[lg]e|ne|in) ))", r"\\text{\1} "),  # p \land q is text
    (r"(^|[(\[,;{=<>]\s*|\\[lg]e\s*|\\to\s*)\+\s*(?=\\infty)", r"\1"),
    (r"(?:\\text\{ ?)?\(? ?(?:\\text\{|\\)?b?mod ?\}? ?([0-9a-z]+)\)?\}?$", r"\\pmod{\1}"),
    (r"\^\s*(?:\{\s*(?:\\circ|o)\s*\}|(?:\\circ|o)(?![a-z]))", "°"),
    (r"\^\s*(?:\{\s*('+)\s*\}|('+))", r"\1\2"),
    (r"\*\*", "^"),
    (r"\\\{ *\\\}|^\{\}$", r"\\emptyset"),
    (r"\\text\{([^{}]*\S) (and|or)\}", r"\\text{\1} \\text{\2} "),
    (r"(?<![A-Za-z])(?:C|\\text\{C\})\s*_\s*(\{[^{}]*\}|\w)\s*\^\s*(\{[^{}]*\}|\w)", r"\\binom \1\2"),
    (r"\\mathbb\{R\}\s*(?:\^\s*\{?\s*[+*]?\+\s*\}?|_\s*\{?\s*(?:\+|>\s*0)\s*\}?)", r"(0, \\infty)"),
    (r"^\(?([0-9A-Fa-f]+)\)?\s*(?:_|\(?(?:\\text\{)?[\s(]*(?:in )?base)[\s{(}]*([0-9]{1,2})[)}\s]*$", r"\1_{\2}"),
    (r"(^|[=:|]|\\(?:in|c[au]p)(?![a-z])) *\](?=[^\[\]]*[,;][^\[\]]*[\[\]])", r"\1 ("),  # ]0, 1[
    (r"([\[(][^\[\]]*[,;][^\[\]]*)\[(?= *(?:$|\\c[au]p(?![a-z])|\\\}))", r"\1)"),
    (r"(^|= *)\[ *(\\frac *\{[^{}]*[a-z][^{}]*\} *\{[^{}]*\}) *\](?= *(?:[-+] *[0-9]+)?$)", r"\1\\lfloor \2\\rfloor "),
    (r"(?<=[0-9}%]) *(?:\\text\{ *)?of the [a-z]+ *\}?$", ""),  # 2/3 of the cake
    (r",? *(?:\\text\{ *)?,? *\(?(?:respectively|only|double root|(?:in )?total|each)\)? *\}?$", ""),
    (r"^y *\( *x *\) *(?==)", "y "),
    (r"^([a-z]) *\\ne *(-?[0-9./]+), *(?=-?[0-9./]+$)", r"\1 \\ne \2, \1 \\ne "),
    (r"^([a-zA-Z]) *: *([a-z]) *\\mapsto ", r"\1(\2) = "),
    (r"(^[a-z]_\{?n\}? *=.*?)[\s,;(]+(?:\\text\{ *)?(?:for |where )? *\}? *n *\\ge *[01] *\)?$", r"\1"),
    (r"\s+", " "),
    (r"^(?:\\text\{)?[Aa]ll real (?:numbers|x) except[} ]*(?:x *= *)?(.+)", r"\\mathbb{R}\\setminus\\{\1\\}"),
    (r"^(?:[Nn]egative|[Mm]inus) (?=[0-9\\])", "-"),
    (r"^(?:=>?|\\(?:approx|Rightarrow|implies|therefore)(?![a-z])|[Aa]pproximately\b) *", ""),
    (r"^((?:[A-Z][a-z]+ )?[0-9]+)(?:\^\s*)?(?:\{?\s*\\text)?\s*\{?(?:st|nd|rd|th)(?![A-Za-z])\}*", r"\1"),  # 15th day
)

# "The value of n is 12", "12 is the answer"; a remark about the answer must not revoke it
LEAD = re.compile(  # no list: x is 3, y is 4
    r"(?![0-9])(?!.*\b(?:is|are|equals)\s[^,]*,.*\b(?:is|are|equals)\b)"
    r"(?:[A-Za-z',\\{}$_^0-9()+|/ -]*\s)?(?:is|are|equals|be|[Ii]t's)"
    r"(?:\s+(?:equal to|given by|exactly|just|simply))?\s*:?\s+(?=\S)"
)
LEAD_WORDS = re.compile(
    r"(?i:so|thus|hence|therefore|final answer|the answer|answer|exactly|only|option|choice|(?:a )?total of|"
    r"we (?:find|get|have|obtain)(?: that)?)[,:]?\s+(?=[^a-z]|[a-z](?![a-z])(?!\s+[a-z]{2}))"
)
SPOKEN = re.compile(  # and a reason
    r"(?i)(?:yes(?!.*\bno\b)|no(?!.*\byes\b))(?=[,.;] (?!(?:if|or|unless|only|but|except|provided|assuming|when)\b))"
    rf"(?!.*\b(?:{one_of('second thoughts')})\b)"
)
DOUBT = re.compile(rf"\b(?:{one_of('doubt')})\b", re.IGNORECASE)


@lru_cache(maxsize=4096)  # a group shares its truth and many answers
def normalize(text: str) -> str:
    """Return `text` without markup, delimiters, LaTeX spacing, lead-in and end punctuation."""
    text = _from_unicode(html.unescape(text))
    if text.replace("\\$", "").count("$") % 2:  # unpaired delimiters
        text = MONEY.sub(r"\\$", text)
    text = without_command(unboxed(rewritten(text, MARKUP)), FONT, str)
    text = COMMAND.sub(lambda command: SYNONYMS.get(command[1], command[0]), text)
    text = without_command(text, UPRIGHT, _as_text)
    return rewritten(strip_ends(strip_sentence(strip_ends(text))), SPELLINGS).strip()


def rewritten(text: str, rules: Iterable[tuple[str, str]]) -> str:
    """Return `text` after the replacements of a table, in its order."""
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def bare_truth(text: str) -> str:
    """Return a truth without JSON's escapes; of a sentence or solution, or several boxes, the boxes if one list."""
    if "\\begin" not in text:  # there, \\ ends a row
        text = TWICE_ESCAPED.sub("", text)
    found, listed = boxes(text), boxed_list(text)
    is_sentence = len(found) > 1 or (found and WORD.search(text[: found[0][0]]))
    is_whole = all(content in listed for _, _, content, _ in found)
    # a word after the box may be a unit
    return listed if is_sentence and is_whole and not WORD.search(text, found[-1][3]) else text


def _from_unicode(text: str) -> str:
    """Write characters as LaTeX or ASCII: 10² as 10^{2}, x₁ or x<sub>1</sub> as x_{1}, ①③ as the list 1, 3."""
    text = text.translate(CHARACTERS)
    text = VULGAR.sub(lambda one: "\\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", one[0]).split("⁄")), text)
    return unicodedata.normalize("NFKC", rewritten(text, FOREIGN)).translate(CHARACTERS)


def unboxed(text: str) -> str:
    """Remove boxes, but no text: "$33$ is not the value" is not 33."""
    while found := boxes(text):
        start, name, content, end = found[0]
        text = text[:start] + name + content + text[end:]
    return text


def without_command(text: str, command: re.Pattern[str], rewrite: Callable[[str], str]) -> str:
    """Remove a command, and rewrite what its braces hold, from the innermost outwards."""
    for match in reversed([*command.finditer(text)]):
        start, end = match.end(), end_of_braces(text, match.end())
        content = rewrite(text[start + 1 : end - 1]) if end else ""
        text = text[: match.start()] + content + text[end or start :]
    return text


def strip_ends(text: str) -> str:
    """Strip emphasis, quotes, end punctuation and a wrapper of the whole text, outside in."""
    previous = None
    while text != previous:
        previous = text
        text = text.strip(' \t\r\n*_`"$').removesuffix("\\").strip()
        if not text.endswith("..."):
            text = text.rstrip(".,;:")
        text = TEXT.sub(r"\1", text) if TEXT.fullmatch(text) else text
    return text


def strip_sentence(text: str) -> str:
    """Return the 12 of "The value is 12", without doubt or denial, else the text unchanged."""
    plain = without_text(text)
    if spoken := SPOKEN.match(plain):
        return spoken[0]
    for pattern in (LEAD, LEAD_WORDS):
        match = pattern.match(plain)
        if match and not DOUBT.search(match.group()):
            plain = text = plain[match.end() :]
    return text


def without_text(text: str) -> str:
    """Return a text with the words of \\text{...} in place of the command, and single spaces."""
    return " ".join(TEXT.sub(r" \1 ", text).split())


def _as_text(content: str) -> str:
    """Write upright words and units as \\text{...}, other content as it is: a formula, a sign."""
    content = re.sub(r"\^\{(-?[0-9])\}", r"^\1", " ".join(content.split()))
    is_text = "{" not in content and (any(map(str.isalnum, content)) or "\\" in content)
    return f"\\text{{{content}}}" if is_text else f" {content} "
