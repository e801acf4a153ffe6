"""The release's prompt template: a fixed text around every problem."""

PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'
QUESTION = "{question}"  # placeholder of the problem in a custom template


def format_prompt(problem: str, template: str | None = None) -> str:
    """Return the user message for `problem`: the release's template around it, or `template` with {question}."""
    return PREFIX + problem + SUFFIX if template is None else template.replace(QUESTION, problem)


def strip_prompt(content: str) -> str:
    """Return the problem in a templated prompt; text without the template is returned unchanged.

    DAPO-Math-17k is published with the template, other sets without.
    """
    return content.removeprefix(PREFIX).removesuffix(SUFFIX)
