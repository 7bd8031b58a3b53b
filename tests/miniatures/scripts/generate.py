"""Inference without any profiler: prompts in, tokens out."""

from __future__ import annotations

import argparse
import sys

import torch
import torch_npu  # noqa: F401
from tinylm import TinyForCausalLM


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--crash-at", type=int, help="prompt")
    options = parser.parse_args()
    torch.npu.set_device(0)
    model = TinyForCausalLM().to("npu:0").eval()
    for number in range(options.prompts):
        if number == options.crash_at:
            sys.exit("the tokenizer has no chat template")
        prompt = torch.randint(0, 256, (1, options.prompt_tokens)).to("npu:0")
        tokens = model.generate(prompt, options.new_tokens)
        torch.npu.synchronize()
        print(f"prompt {number}: {tokens.shape[1]} tokens", flush=True)


if __name__ == "__main__":
    main()
