"""`ascend_pytorch_profiler_<rank>.db` and `analysis.db`: opened read-only, every page checked, what they
hold counted.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import quote

from ..trace.stream import Damage
from .kernels import RATIO

if TYPE_CHECKING:
    import sqlite3

# Rows are counted in these only; names and levels from real exports (CANN 8.0, 910B) and torch_npu 2.13.0.
LEVEL0_TABLES = ("STRING_IDS", "TASK", "COMPUTE_TASK_INFO")
LEVEL1_TABLES = ("CANN_API",)
PMU_TABLE = "TASK_PMU_INFO"
MANY = 100_000  # steps or ranks


class Database(NamedTuple):
    """What a database holds: rows per table of interest, recorded step ids, chip, names of measured ratios, when its
    tasks ran (nanoseconds of the epoch), the ranks that it is of.
    """

    tables: List[str]
    rows: Dict[str, int]
    steps: List[int]
    chip: str
    ratios: List[str]
    span: Optional[Tuple[int, int]]
    ranks: List[int]


def read(path: str) -> Database:
    """Check and sum up the SQLite file `path` without changing it; Damage when it is not a whole database.

    ImportError where this Python was built without sqlite3.
    """
    import sqlite3

    # immutable: no lock file beside the data, which may lie on a read-only or network file system.
    address = "file:%s?mode=ro&immutable=1" % quote(os.path.abspath(path))
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            return _read(connection)
    except (
        sqlite3.Error,
        UnicodeDecodeError,
        TypeError,
        ValueError,
    ) as error:  # a damaged schema breaks the messages about it
        raise Damage("is not a whole SQLite database: %s" % error) from error


def _read(connection: sqlite3.Connection) -> Database:
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise Damage("is not a whole SQLite database: %s" % state)
    tables = sorted(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    counted = [name for name in LEVEL0_TABLES + LEVEL1_TABLES + (PMU_TABLE,) if name in tables]
    count = "SELECT count(*) FROM %s"
    rows = {name: connection.execute(count % name).fetchone()[0] for name in counted}
    steps: List[int] = []
    for table, column in (("STEP_TIME", "id"), ("StepTraceTime", "step")):
        if table in tables:
            steps += [int(step) for step in _column(connection, table, column) if str(step).isdecimal()]
    span = None
    if rows.get("TASK"):
        first, last = connection.execute("SELECT min(startNs), max(endNs) FROM TASK").fetchone()
        span = int(first), int(last)
    ranks = _column(connection, "RANK_DEVICE_MAP", "rankId") if "RANK_DEVICE_MAP" in tables else []
    chip = None
    if "NPU_INFO" in tables:
        chip = connection.execute("SELECT name FROM NPU_INFO LIMIT 1").fetchone()
    ratios: List[str] = []
    if {PMU_TABLE, "STRING_IDS"} <= set(tables):
        names = connection.execute(
            "SELECT value FROM STRING_IDS WHERE id IN (SELECT DISTINCT name FROM TASK_PMU_INFO WHERE value > 0)"
        )
        ratios = sorted(name for (name,) in names if RATIO.match(str(name)))
    known = sorted(rank for rank in ranks if isinstance(rank, int) and rank >= 0)
    return Database(tables, rows, sorted(set(steps)), str(chip[0]) if chip else "", ratios, span, known)


def _column(connection: sqlite3.Connection, table: str, column: str) -> List[Any]:
    return [value for (value,) in connection.execute("SELECT %s FROM %s LIMIT %d" % (column, table, MANY))]  # noqa: S608 - names from here
