"""The engine: its warm-up, and one forward after the other under the profiler."""

import os

from executor.core.support_models import SUPPORT_MODELS
from executor.utils.profiler_context import ProfilerManager


class ExecutionEngine:
    def __init__(self, config, device):
        self.config = config
        self.model = SUPPORT_MODELS[config.model_name](device)
        save_path = os.path.join(os.environ["WORK_DIR"], os.environ["RES_PATH"], "prof")
        self.profiler = ProfilerManager(config.enable_profiler, save_path)

    def warm_up(self):
        """Compiles and allocates; the profiler sees nothing of it."""
        self._execute(is_prefill=True)
        self._execute(is_prefill=False)

    def forward_batch(self, is_prefill):
        self.profiler.set_status(is_prefill)
        output = self._execute(is_prefill)
        self.profiler.step()
        return output

    def _execute(self, is_prefill):
        return self.model.forward(self.config.input_tokens if is_prefill else 1)
