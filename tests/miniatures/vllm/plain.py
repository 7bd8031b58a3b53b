"""A user's script: offline inference with vLLM that knows of no profiler."""

import sys

import torch_npu  # noqa: F401 - as many do
from vllm import LLM, SamplingParams


def main() -> None:
    llm = LLM(model="/models/tiny", tensor_parallel_size=int(sys.argv[1]))
    params = SamplingParams(max_tokens=16, ignore_eos=True)
    for number in range(int(sys.argv[2])):
        (output,) = llm.generate([f"Tell me all about number {number}"], params)
        print(number, output.outputs[0].text)


if __name__ == "__main__":
    main()
