"""What a request asks for, what comes back, and how a text becomes tokens."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

VOCABULARY = 512
EOS_AFTER = 4  # tokens; a request that does not ignore the end of the sequence ends there


@dataclass
class SamplingParams:
    max_tokens: int = 16
    temperature: float = 1.0
    ignore_eos: bool = False


@dataclass
class Completion:
    token_ids: list[int]
    finish_reason: str

    @property
    def text(self) -> str:
        return "".join(f" w{token}" for token in self.token_ids)


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[Completion] = field(default_factory=list)


def tokens_of(prompt: object) -> list[int]:
    """A text, a list of tokens, or a mapping with ``prompt_token_ids`` or ``prompt``; a word is a token."""
    if isinstance(prompt, dict):
        prompt = prompt.get("prompt_token_ids", prompt.get("prompt", ""))
    if isinstance(prompt, str):
        return [zlib.crc32(word.encode()) % VOCABULARY for word in prompt.split()]
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return prompt
    raise ValueError("prompt must be a string or a list of token ids")


def prompts_of(prompt: object) -> list[list[int]]:
    """Those of one request to a server: one, or a list of them."""
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    return [tokens_of(one) for one in prompt] if several else [tokens_of(prompt)]
