"""The one exception that ends a run on purpose, and the kinds of trouble that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple


class Failure(Exception):
    """A run cannot go on.

    `kind` names the controller's error class (and so the exit code): NoFreeDevice, EnvironmentUnfit, RunFailed,
    ProfileInvalid, StorageError or Interrupted. `entry`: where docs/troubleshooting.md tells of it; "" for the entry
    of its kind.
    """

    def __init__(self, kind: str, message: str, remedy: str = "", entry: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.remedy = remedy
        self.entry = entry

    def to_json(self) -> Dict[str, str]:
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy, "entry": self.entry}


@dataclass(frozen=True)
class Trouble:
    """A kind of trouble: what the tool says of it, and an entry of docs/troubleshooting.md, which is made of these.

    `message` and `remedy` have the words of one case in braces; directly behind a word, what may be missing. `cause`:
    what they do not say. `seen`: what one reads when the message is in somebody else's words.
    """

    id: str
    kind: str
    message: str
    cause: str
    remedy: str
    seen: Tuple[str, ...] = ()

    def __call__(self, **words: object) -> Failure:
        return Failure(self.kind, self.message.format(**words), self.remedy.format(**words), self.id)
