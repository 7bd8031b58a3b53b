from .mindie_sd_backend import MindieSDBackend

__all__ = ["MindieSDBackend"]
