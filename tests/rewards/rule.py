r"""The release's answer rule once more (paper.md, section 8), by scanning characters: no regular expressions.

Every function restates one sentence of it. What `release.py` decides is compared with this.
"""

REPLACE = r"""
an_ ->
a_ ->
.$ -> $
\$ ->
\_ ->
_ ->
mbox -> text
,\text{and} -> ,
\text{and} -> ,
\text{m} -> \text{}
"""  # a space is written _ here
DELETE = r"""
square ways integers dollars mph inches hours km units \ldots sue points feet minutes digits cents degrees cm gm
pounds meters meals edges students childrentickets multiples \text{s} \text{.} \text{~s} \text{}^2 \text{}^3 \text{~}
\text{} \mathrm{th} ^\circ ^{\circ} \; ,\! {,} " \dots
"""  # a line end inside \text{} is written ~ here


def verdict(response: str, truth: str) -> tuple[bool, str]:
    """Right or wrong, and the normalised answer ("" where there is none)."""
    found = last_answer(response[max(0, len(response) - 300) :])
    if found is None:
        return False, ""
    return normal(found) == normal(truth), normal(found)


def last_answer(text: str) -> str | None:
    """What the last match captures. Matches do not overlap: one takes the rest of its line."""
    found, at = None, 0
    while at < len(text):
        captured = capture_at(text, at)
        if captured is None:
            at += 1
        else:
            found, at = captured
    return found


def capture_at(text: str, at: int) -> tuple[str, int] | None:
    """The capture of a match that begins at `at`, and where it ends."""
    if [letter.upper() for letter in text[at : at + 6]] != list("ANSWER"):
        return None
    colon = after_space(text, at + 6)
    if text[colon : colon + 1] != ":":
        return None
    start = after_space(text, colon + 1)
    if start == len(text):
        # nothing but white space follows: the last of it that is no line end is the answer
        blanks = [place for place in range(colon + 1, start) if text[place] != "\n"]
        return (text[blanks[-1]], blanks[-1] + 1) if blanks else None
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    return text[start:end], end


def after_space(text: str, at: int) -> int:
    """The first place from `at` on that is no white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def normal(text: str) -> str:
    """The normalised answer or truth."""
    text = text.split("=")[-1]
    for line in REPLACE.split("\n"):
        if line:
            before, after = line.split(" ->")
            text = after.strip().join(text.split(before.replace("_", " ")))
    for word in DELETE.split():
        text = "".join(text.split(word.replace("~", "\n")))
    text = "\n".join(between_dollars(line) for line in text.split("\n"))
    for opening in ("\\text{", "\\textbf{", "\\overline{"):
        text = unwrap(text, opening, str.find)
    text = unwrap(text, "\\boxed{", str.rfind)
    text = brace(text, "frac", 2)
    text = brace(text, "sqrt", 1)
    text = "".join(letter for letter in text if letter != "$")
    rest = [letter for letter in text if letter != ","]
    if rest and all(letter.isdigit() for letter in rest):
        text = "".join(rest)
    while text and text[0].isspace():
        text = text[1:]
    while text and text[-1].isspace():
        text = text[:-1]
    return text


def between_dollars(line: str) -> str:
    """A line with two dollar signs is what stands between the first two, in dollars."""
    parts = line.split("$")
    return f"${parts[1]}$" if len(parts) > 2 else line


def unwrap(text: str, opening: str, closing) -> str:
    """Take `opening`...} off, the content within one line; closing finds the first or the last brace in it."""
    done = ""
    while opening in text:
        before, _, after = text.partition(opening)
        line = after.split("\n")[0]
        end = closing(line, "}")
        if end < 0:
            done, text = done + before + opening, after
        else:
            done, text = done + before + after[:end], after[end + 1 :]
    return done + text


def brace(text: str, command: str, count: int) -> str:
    """Put braces around each of the `count` characters after `command`, where the first is no brace.

    As in every pattern of the rule, the second character may be anything but a line end.
    """
    done = ""
    while command in text:
        before, _, after = text.partition(command)
        letters = after[:count]
        if len(letters) < count or letters[0] == "{" or "\n" in letters[1:]:
            done, text = done + before + command, after
        else:
            done, text = done + before + command + "".join(f"{{{one}}}" for one in letters), after[count:]
    return done + text
