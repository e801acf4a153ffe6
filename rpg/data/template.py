"""The prompt template of the release: one fixed text around every problem."""

PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'
QUESTION = "{question}"  # the place of the problem in a user's template


def format_prompt(problem: str, template: str | None = None) -> str:
    """Return the user message for `problem`: the release's template around it, or `template` with {question}."""
    return PREFIX + problem + SUFFIX if template is None else template.replace(QUESTION, problem)


def is_templated(content: str) -> bool:
    """Whether `content` is exactly what `format_prompt` makes of some problem."""
    return content.startswith(PREFIX) and content.endswith(SUFFIX) and len(content) >= len(PREFIX) + len(SUFFIX)


def strip_prompt(content: str) -> str:
    """Return the problem inside a templated prompt; a text without the template comes back unchanged.

    DAPO-Math-17k is published with the template already around its problems, other sets are bare.
    """
    return content[len(PREFIX) : len(content) - len(SUFFIX)] if is_templated(content) else content
