"""Prompts as verl tokenizes them: the tokenizer, chat template and template arguments of a run."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

from rpg.data.readers import DataError
from rpg.diagnostics import did_you_mean

BATCH = 1024  # prompts tokenized at once
OF_THE_CALL = ("tokenize", "return_dict", "return_tensors")  # template arguments that verl takes out


class NoTokenizer(DataError):
    """A path or hub name without a tokenizer that can be read here."""


class PromptTokenizer:
    """Renders and counts prompts as verl's RLHFDataset and agent loop do."""

    def __init__(
        self,
        path: str,
        chat_template: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        trust_remote_code: bool = False,
    ):
        """Load the tokenizer in a directory or of a name on the hub, with a run's template and arguments for it.

        Raises NoTokenizer if it cannot be read, DataError if it has no chat template.
        """
        from huggingface_hub.errors import StrictDataclassError
        from transformers import AutoTokenizer

        try:
            try:  # the cache first: offline, the hub's client retries for a minute
                self._tokenizer = AutoTokenizer.from_pretrained(
                    path, trust_remote_code=trust_remote_code, local_files_only=True
                )
            except OSError:
                if Path(path).is_dir():
                    raise
                self._tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError, StrictDataclassError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise NoTokenizer(f"{path}: no tokenizer ({reason}); give the model's folder") from error
        if chat_template is not None:
            self._tokenizer.chat_template = chat_template
        if not self._tokenizer.chat_template:
            raise DataError(
                f"{path}: no chat template, which verl needs; set actor_rollout_ref.model.custom_chat_template, or "
                "use the instruct model"
            )
        self._arguments = {name: value for name, value in (arguments or {}).items() if name not in OF_THE_CALL}

    def render(self, prompt: Any) -> str:
        """Return the text of a prompt. Raises DataError, which says why: no messages, or the template refuses them."""
        messages = prompt if isinstance(prompt, list) else []
        if not messages or any(not isinstance((message or {}).get("content"), str) for message in messages):
            raise DataError("the prompt is no list of messages with text")
        try:
            return self._tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, tokenize=False, **self._arguments
            )
        except Exception as error:  # a template is a program: it may raise anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"the chat template refuses the prompt ({reason})") from error

    def unread_arguments(self) -> dict[str, str]:
        """Return the template arguments that neither transformers nor the chat template names, and the nearest name.

        The nearest is "" if there is none.
        """
        words = re.findall(r"\w+", self._tokenizer.get_chat_template())
        known = {*words, *signature(self._tokenizer.apply_chat_template).parameters}
        return {name: did_you_mean(name, known) for name in self._arguments if name not in known}

    def lengths(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of rendered prompts."""
        return [len(ids) for ids in self._tokenizer(texts, add_special_tokens=False)["input_ids"]]


@dataclass(frozen=True)
class PromptCount:
    """The prompts of one file: their tokens by row, 0 for those that the template refuses, and the rows above a limit.

    unusable: how many are refused; first_unusable: the first row, and why.
    """

    lengths: list[int]
    longest: int
    too_long: list[int]
    unusable: int
    first_unusable: str


def count_prompts(prompts: Iterable[Any], tokenizer: PromptTokenizer, limit: float = math.inf) -> PromptCount:
    """Count the tokens of prompts: 14,000 of 500 characters take up to 6 s on one core."""
    lengths, refused, numbered = list[int](), list[str](), iter(enumerate(prompts))
    while batch := list(islice(numbered, BATCH)):
        texts = []
        for row, prompt in batch:
            try:
                texts.append(tokenizer.render(prompt))
            except DataError as error:
                refused.append(f"row {row}: {error}")
                texts.append("")
        lengths += tokenizer.lengths(texts)
    too_long = [row for row, length in enumerate(lengths) if length > limit]
    return PromptCount(lengths, max(lengths, default=0), too_long, len(refused), next(iter(refused), ""))
