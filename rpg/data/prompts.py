"""Prompts as verl tokenizes them: the tokenizer, chat template and template arguments of a run."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

from rpg.data.readers import DataError
from rpg.diagnostics import did_you_mean

GENERATION_TAG = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")  # of transformers, unknown to jinja2
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
        """Load a tokenizer.

        Args:
            path: directory or name on the hub.
            chat_template: replaces the tokenizer's own (actor_rollout_ref.model.custom_chat_template).
            arguments: for the template (data.apply_chat_template_kwargs).
            trust_remote_code: as in verl's actor_rollout_ref.model.

        Raises:
            NoTokenizer: it cannot be read.
            DataError: it has no chat template.
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
        if not isinstance(prompt, list) or not prompt:
            raise DataError("the prompt is null" if prompt is None else "the prompt has no messages")
        for message in prompt:
            if not isinstance(message, dict) or not isinstance(message.get("content"), str):
                raise DataError("the prompt has a message without text")
        try:
            return self._tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, tokenize=False, **self._arguments
            )
        except Exception as error:  # a template is a program: it may raise anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"the chat template refuses the prompt ({reason})") from error

    def unread_arguments(self) -> dict[str, str]:
        """Return the template arguments that neither transformers nor the chat template reads, and the nearest name.

        The nearest is "" if there is none. None is unread if the template cannot be parsed: `render` then says so.
        """
        from jinja2 import TemplateSyntaxError
        from jinja2.meta import find_undeclared_variables
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        template = GENERATION_TAG.sub("", self._tokenizer.get_chat_template())
        try:
            parsed = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(template)
        except TemplateSyntaxError:
            return {}
        read = {*find_undeclared_variables(parsed), *signature(self._tokenizer.apply_chat_template).parameters}
        return {name: did_you_mean(name, read) for name in self._arguments if name not in read}

    def lengths(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of rendered prompts."""
        return [len(ids) for ids in self._tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []


@dataclass
class PromptCount:
    """The prompts of one file by row: tokens, None without a text; `first_unusable`: the row, and why."""

    limit: int
    lengths: list[int | None] = field(default_factory=list)
    first_unusable: str = ""

    @property
    def unusable(self) -> int:
        """Prompts without a text."""
        return self.lengths.count(None)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max((length for length in self.lengths if length is not None), default=0)

    @property
    def too_long(self) -> list[int]:
        """The rows of the prompts above the limit."""
        return [row for row, length in enumerate(self.lengths) if length is not None and length > self.limit]


def count_prompts(prompts: Iterable[Any], tokenizer: PromptTokenizer, limit: int) -> PromptCount:
    """Count the tokens of prompts: 14,000 of 500 characters take up to 6 s on one core."""
    count, numbered = PromptCount(limit), iter(enumerate(prompts))
    while batch := list(islice(numbered, BATCH)):
        texts: list[str | None] = []
        for row, prompt in batch:
            try:
                texts.append(tokenizer.render(prompt))
            except DataError as error:
                count.first_unusable = count.first_unusable or f"row {row}: {error}"
                texts.append(None)
        lengths = iter(tokenizer.lengths([text for text in texts if text is not None]))
        count.lengths += [None if text is None else next(lengths) for text in texts]
    return count
