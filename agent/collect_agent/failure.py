"""The one exception that ends a run on purpose."""

from __future__ import annotations

from typing import Dict


class Failure(Exception):
    """A run cannot go on.

    `kind` names the controller's error class (and so the exit code): NoFreeDevice, EnvironmentUnfit, RunFailed,
    ProfileInvalid, StorageError or Interrupted.
    """

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.remedy = remedy

    def to_json(self) -> Dict[str, str]:
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy}
