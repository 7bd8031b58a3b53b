from .modeling_tiny import TinyForCausalLM

__all__ = ["TinyForCausalLM"]
