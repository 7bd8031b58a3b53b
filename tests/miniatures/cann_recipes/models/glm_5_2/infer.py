"""Its directories are the other way round, and one prefill in ten is recorded after five that are not."""

import argparse

from executor.model_runner import ModelRunner


class GlmRunner(ModelRunner):
    PROF_DIR = "{res}/{phase}/prof"

    def model_generate(self, warm_up=False):
        self.loop("prefill", self.input_tokens, warm_up, count=10, skip_first=5, active=1)
        self.loop("decode", 1, warm_up, count=self.max_new_tokens - 1, skip_first=3, active=3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--yaml_file_path", required=True)
    GlmRunner(parser.parse_args().yaml_file_path).model_generate()
