"""The prompt template of the release: one fixed text around every problem."""

PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'


def format_prompt(problem: str) -> str:
    """Return the user message for `problem`: the template around it, blank lines between."""
    return PREFIX + problem + SUFFIX


def is_templated(content: str) -> bool:
    """Whether `content` is exactly what `format_prompt` makes of some problem."""
    return content.startswith(PREFIX) and content.endswith(SUFFIX) and len(content) >= len(PREFIX) + len(SUFFIX)


def strip_prompt(content: str) -> str:
    """Return the problem inside a templated prompt; a text without the template comes back unchanged.

    DAPO-Math-17k is published with the template already around its problems, other sets are bare.
    """
    if is_templated(content):
        return content[len(PREFIX) : len(content) - len(SUFFIX)]
    return content
