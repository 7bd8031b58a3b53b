"""The models that the engine can run, by `model_config.model_name`."""

from executor.core.toy import Toy

SUPPORT_MODELS = {"deepseek_r1": Toy}
