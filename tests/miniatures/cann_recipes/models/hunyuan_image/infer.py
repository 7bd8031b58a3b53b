"""Its author switched the profiler off for good: the YAML has no say."""

import argparse

from executor.model_runner import ModelRunner

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--yaml_file_path", required=True)
    runner = ModelRunner(parser.parse_args().yaml_file_path)
    runner.enable_profiler = False
    runner.model_generate()
