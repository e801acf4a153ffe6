"""Text from elsewhere (names of runs and data sets, settings, paths), written so that no format takes it for its own.

Every function shows what the text holds, in one line, and lets none of it be carried out.
"""

import html as _html

MOST_SHOWN = 100  # letters of a name in a picture


def printable(text: str) -> str:
    """The text in one line: line ends, terminal escapes and whatever else does not print, as Python escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "$": r"\$"})
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "[": "{[}",  # a row that begins with it would be the argument of \\ before it
        "]": "{]}",
        "*": "{*}",  # likewise
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "–": "--",
        "±": r"$\pm$",
        **{letter: f"\\{letter}" for letter in "&%_#$"},
    }
)


def markdown(text: str) -> str:
    """No HTML, no cell border, no mathematics, no link or picture."""
    return printable(text).translate(_MARKDOWN).replace("](", "]&#40;")


def tex(text: str) -> str:
    """No command, group or mathematics."""
    return printable(text).translate(_TEX)


def csv_field(text: str) -> str:
    """No formula: spreadsheets take a quotation mark in front as "this is text". The csv module does the quoting."""
    text = printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def html(text: str) -> str:
    """No tag and no end of an attribute, whichever quotation mark it has."""
    return _html.escape(printable(text), quote=True)


def picture(text: str) -> str:
    """No mathematics, which matplotlib sees between dollars, and no underscore in front, which hides from legends."""
    text = printable(text)
    text = text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
