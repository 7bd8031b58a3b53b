"""Offline inference of one batch: a prefill, then max_new_tokens decode steps, whatever comes out of them."""

import argparse

from executor.core.config.inference_config import InferenceConfig, join_the_ranks
from executor.core.engine.execution_engine import ExecutionEngine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--yaml_file_path", required=True)
    config = InferenceConfig.read(parser.parse_args().yaml_file_path)
    engine = ExecutionEngine(config, join_the_ranks(config.world_size))
    engine.warm_up()
    engine.forward_batch(is_prefill=True)
    for _ in range(config.max_new_tokens):
        engine.forward_batch(is_prefill=False)
    print(f"generated {config.max_new_tokens} tokens")


if __name__ == "__main__":
    main()
