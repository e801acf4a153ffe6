"""Made-up responses: an answer in the form that the prompt asks for."""

import pytest

from rpg.data.template import format_prompt
from rpg.rewards.user_reward import example


@pytest.mark.parametrize(
    ("prompt", "boxed", "line"),
    [
        (format_prompt("What is 1 + 2?"), False, True),
        ("What is 1 + 2? Put it into \\boxed{}.", True, False),
        ("Put it into \\boxed{} behind Answer:", True, True),
        ("What is 1 + 2?", True, True),
    ],
)
def test_the_form_is_the_prompts(prompt, boxed, line):
    response = example(3, [{"role": "user", "content": prompt}])
    assert ("\\boxed{3}" in response, "Answer: 3" in response) == (boxed, line)
