"""``torch._dynamo.utils.counters``: how many frames and graphs ``torch.compile`` has compiled."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import DefaultDict

counters: DefaultDict[str, Counter] = defaultdict(Counter)
