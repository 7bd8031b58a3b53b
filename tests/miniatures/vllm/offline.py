"""A user's script: offline inference with vLLM, with the profiler as vLLM's documentation shows it."""

import os
import sys

from vllm import LLM, SamplingParams

PROMPTS = ["Hello, my name is", "The president of the United States is"]


def main() -> None:
    config = {"profiler": "torch", "torch_profiler_dir": "./vllm_profile"}
    kwargs = {} if os.environ.get("VLLM_TORCH_PROFILER_DIR") else {"profiler_config": config}
    llm = LLM(model="/models/tiny", tensor_parallel_size=int(sys.argv[1]), **kwargs)
    llm.generate(PROMPTS, SamplingParams(max_tokens=4))
    llm.start_profile()
    outputs = llm.generate(PROMPTS, SamplingParams(max_tokens=8, ignore_eos=True))
    llm.stop_profile()
    for output in outputs:
        print(len(output.outputs[0].token_ids), output.outputs[0].text)


if __name__ == "__main__":
    main()
