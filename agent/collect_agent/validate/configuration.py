"""Checks of what was collected: the configuration, the files it calls for, their columns and core counters."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

from .database import LEVEL0_TABLES, LEVEL1_TABLES, PMU_TABLE
from .facts import INFO_NAME, OUTPUT, Facts
from .registry import Result, absent, check, failed, passed, unproven, warned

TRACE = OUTPUT + "/trace_view.json"
COLLECT_AGAIN = "collect again"
OF_OTHERS = "put every rank's files back together"
NO_PMU_TABLE = re.compile(r"Ascend(910A|910Pro|310)", re.IGNORECASE)


@check(
    "profiler-info",
    catches="a profiler that was never stopped, a directory assembled from two ranks",
    source="finalize_trace writes profiler_info*.json when the profiler stops (torch_npu profiler_interface.py)",
    remedy="stop the profiler by its API, and keep the whole *_ascend_pt directory",
)
def profiler_info(facts: Facts) -> Result:
    damaged = [path for path in facts.damage if path.startswith("profiler_info")]
    if damaged:
        return failed("%s %s" % (damaged[0], facts.damage[damaged[0]]))
    if facts.info is None:
        if facts.bare:
            return unproven("%s alone has no profiler_info*.json: its configuration cannot be proved" % OUTPUT)
        return failed("there is no profiler_info*.json: the profiler was never stopped, or the file was left behind")
    several = sorted(path for path in facts.files if INFO_NAME.match(path))
    if len(several) > 1:
        return failed("%s are in one directory" % " and ".join(several[:2]), OF_OTHERS)
    if not facts.info.document.get("end_info"):
        return failed("%s has no end_info: the profiler was not stopped" % facts.info.name)
    rank, stated = facts.info.rank, facts.info.stated_rank
    if rank is not None and stated is not None and rank != stated:
        return failed("%s says rank %d inside" % (facts.info.name, stated), OF_OTHERS)
    return passed("%s is whole and says that the profiler was stopped" % facts.info.name, **facts.info.versions)


@check(
    "configuration",
    catches="options that torch_npu silently replaced, or a script that never set them",
    source="profiler_info*.json, config.experimental_config: the configuration used, not the one in the script",
    remedy="collect with profiler_level and aic_metrics as asked, given to _ExperimentalConfig as enum values",
)
def configuration(facts: Facts) -> Result:
    if facts.info is None:
        return absent("no profiler_info*.json to read it from")
    level, metrics, export = facts.info.level, facts.info.metrics, facts.exports
    figures: Dict[str, Any] = {"level": level, "metrics": metrics, "export": list(export)}
    if level != facts.asked.level:
        return failed("collected at %s, asked for %s" % (level, facts.asked.level), **figures)
    if metrics != facts.asked.metrics:
        return failed("collected with aic_metrics %s, asked for %s" % (metrics, facts.asked.metrics), **figures)
    missing = [kind for kind in facts.asked.export if kind not in export]
    if missing:
        return failed("exported as %s, asked for %s" % (" and ".join(export), " and ".join(missing)), **figures)
    return passed("%s with %s" % (level, metrics), **figures)


def _wanted(facts: Facts) -> Tuple[List[str], List[str]]:
    """Text files of this configuration: (those that a complete profile has, those that it usually has)."""
    must = ["trace_view.json"]
    # Tables of the device are not written when nothing ran on it: the check of kernels says so.
    idle = facts.trace is not None and not facts.trace.device_slices and not facts.has("kernel_details.csv")
    must += [] if idle else ["kernel_details.csv", "step_trace_time.csv"]
    usual: List[str] = []
    if not facts.level0:
        statistics = ["api_statistic.csv"]
        computed = not idle and (facts.kernels is None or facts.kernels.compute_rows)
        statistics += ["op_statistic.csv"] if computed else []
        statistics += ["operator_details.csv"] if facts.info is None or facts.info.cpu else []
        # Written since v6.0; the version is stated since v7.0, so only then their absence tells.
        (must if facts.info and facts.info.versions else usual).extend(statistics)
        if facts.kernels and any(step.communication for step in facts.kernels.steps.values()):
            usual += ["communication.json", "communication_matrix.json"]
    if facts.info and facts.info.memory:
        usual += ["memory_record.csv", "operator_memory.csv"]
    return must, usual


@check(
    "files",
    catches="a parse that failed half-way, a template that exported the trace only",
    source="deliverables by export type, level and version (torch_npu prof_view/*; nine real exports)",
    remedy="run torch_npu.profiler.profiler.analyse() on the raw data with CANN's environment sourced",
)
def files(facts: Facts) -> Result:
    found = sorted(path for path in facts.files if path.startswith(OUTPUT + "/"))
    if not found:
        raw = [path for path in facts.files if path.startswith(("PROF_", "FRAMEWORK"))]
        what = "raw data only, never parsed" if raw else "nothing"
        return failed("the directory holds %s: there is no %s" % (what, OUTPUT), files=0)
    must, usual = _wanted(facts) if facts.exports_text else ([], [])
    missing = [name for name in must if not facts.has(name)]
    databases = [name for name in facts.output(".db") if name.startswith("ascend_pytorch_profiler")]
    if "db" in facts.exports and not databases:
        missing.append("ascend_pytorch_profiler*.db")
    if facts.exports_text and facts.has("trace_view.json") and len(found) == 1:
        return failed(
            "there is only trace_view.json: export_chrome_trace writes no more",
            "give the profiler on_trace_ready=tensorboard_trace_handler(directory)",
            missing=missing,
        )
    if missing:
        return failed("%s not there" % _enumerate(missing), missing=missing)
    empty = sorted(path for path in found if not facts.files[path].size and not path.endswith("analyse.done"))
    if empty:
        return failed("%s empty" % _enumerate(empty), empty=empty)
    doubtful = [name for name in usual if not facts.has(name)]
    if doubtful:
        return warned("%s not there" % _enumerate(doubtful), missing=doubtful)
    return passed("all files that this configuration calls for", files=len(found))


def _enumerate(names: List[str]) -> str:
    return "%s %s" % (", ".join(names), "are" if len(names) > 1 else "is")


@check(
    "intact",
    catches="tables that were cut off, overwritten, or are not what their names say",
    source="every row has the header's cells and the file ends with a line end (all real exports)",
    remedy="copy the file again from the host, or parse the raw data again",
)
def intact(facts: Facts) -> Result:
    broken = {
        path: reason
        for path, reason in sorted(facts.damage.items())
        if path != TRACE and not path.startswith("profiler_info") and not path.endswith(".db")
    }
    if broken:
        first = next(iter(broken))
        more = "" if len(broken) == 1 else " (and %d more)" % (len(broken) - 1)
        return failed("%s %s%s" % (first, broken[first], more), damaged=broken)
    tables = facts.output(".csv")
    return passed("%d tables read to their ends" % len(tables), tables=len(tables))


@check(
    "kernels",
    catches="a model that never ran on the NPU, told apart from a parse that failed",
    source="create_csv_file writes nothing when there are no rows (torch_npu _file_manager.py)",
    remedy="check that model and inputs are on npu:0 and that no operator falls back to the CPU",
)
def kernels(facts: Facts) -> Result:
    if not facts.exports_text:
        return absent("a database export has no kernel_details.csv")
    if facts.kernels is not None and facts.kernels.rows:
        cores = dict(sorted(facts.kernels.cores.items()))
        return passed("%d kernels" % facts.kernels.rows, kernels=facts.kernels.rows, cores=cores)
    if not facts.has("kernel_details.csv") and facts.trace is not None and not facts.trace.device_slices:
        return failed("no kernel ran on the NPU during the window (is the model on npu:0?)", kernels=0)
    return absent("kernel_details.csv is not there, or could not be read")


@check(
    "columns",
    catches="a table of another tool or level under the right name",
    source="by name: a share and a time of every pipe, six shape columns or none; their number (36 to 49 at Level1) "
    "follows chip, CANN and torch_npu",
    remedy="collect with CPU and NPU activities at the level asked for",
)
def columns(facts: Facts) -> Result:
    if facts.kernels is None:
        return absent("no kernel_details.csv to look at")
    missing = facts.kernels.missing(facts.level0)
    if missing:
        return failed("kernel_details.csv has no column %s" % ", ".join(missing), missing=missing)
    documented = facts.level0 or (facts.info and facts.info.metrics == "PipeUtilization" and facts.kernels.ratios)
    unknown = facts.kernels.unknown() if documented else []
    if unknown:
        return warned("kernel_details.csv has columns of no known export: %s" % ", ".join(unknown), unknown=unknown)
    if "Step Id" not in facts.kernels.columns and facts.info and facts.info.schedule:
        cause = "CPU activity was off" if not facts.info.cpu else "no host records are linked to kernels"
        return warned("kernel_details.csv has no Step Id: steps cannot be told apart: %s" % cause)
    return passed("named columns are all there", columns=len(facts.kernels.columns))


@check(
    "pmu-values",
    catches="core counters that were never collected or got lost (21 or 22 columns, or N/A everywhere)",
    source="PipeUtilization: (aic_|aiv_)(mac|vec|mte2)(_exe)_ratio, numbers on AI-core rows of 910A, 910B, 310P, 950",
    remedy="collect at Level1 with PipeUtilization; if it was, the device lost its counters: collect again",
)
def pmu_values(facts: Facts) -> Result:
    asked = facts.info.metrics if facts.info and facts.info.metrics else facts.asked.metrics
    if facts.level0 or asked != "PipeUtilization":
        return absent("only PipeUtilization at Level1 and above has these columns")
    if facts.kernels is None or not facts.kernels.rows:
        return absent("no kernels to look at")
    kernels = facts.kernels
    figures: Dict[str, Any] = {
        "columns": kernels.ratios,
        "ai_core_rows": kernels.ai_core_rows,
        "measured_rows": kernels.measured_rows,
        "nonzero_rows": kernels.nonzero_rows,
    }
    if not kernels.ratios:
        return failed("collected without Level1+PipeUtilization (no aic_*/aiv_* columns)", **figures)
    if not kernels.ai_core_rows:
        return unproven("no kernel ran on an AI core: the counters cannot be judged", **figures)
    if not kernels.measured_rows:
        return failed("no AI-core row has a number in %s" % ", ".join(kernels.ratios), **figures)
    if not kernels.nonzero_rows:
        return failed("all core counters are 0 on %d AI-core rows" % kernels.ai_core_rows, **figures)
    if kernels.measured_rows < kernels.ai_core_rows:
        lost = kernels.ai_core_rows - kernels.measured_rows
        return warned("%d of %d AI-core rows have no counters" % (lost, kernels.ai_core_rows), **figures)
    return passed("numbers on all %d AI-core rows" % kernels.ai_core_rows, **figures)


@check(
    "trace",
    catches="a trace_view.json without its closing bracket, of 0 bytes, with a NUL tail, or without device slices",
    source="the device part is appended after the framework part (torch_npu _trace_view_parser.py); json.load decides",
    remedy="the first ERROR in logs/ is the cause: mend it and parse the raw data again, on a local disk",
)
def trace(facts: Facts) -> Result:
    if TRACE in facts.damage:
        return failed("trace_view.json %s" % facts.damage[TRACE])
    if facts.trace is None:
        return absent("there is no trace_view.json")
    figures: Dict[str, Any] = {"events": facts.trace.events, "device_slices": facts.trace.device_slices}
    if not facts.trace.device_slices and facts.has("kernel_details.csv"):
        return failed("trace_view.json has no slice of the device (process Ascend Hardware)", COLLECT_AGAIN, **figures)
    return passed("a complete list of %d events" % facts.trace.events, **figures)


@check(
    "database",
    catches="a database that was cut off, lacks the tables of its level, or is of another rank",
    source="tables of real Level0, Level1 and Level2 exports; TASK_PMU_INFO only with core counters",
    remedy="export again to a local disk (SQLite needs working locks)",
)
def database(facts: Facts) -> Result:
    for path, reason in sorted(facts.damage.items()):
        if path.endswith(".db"):
            return failed("%s %s" % (path, reason))
    unread = [name for name in facts.output(".db") if name not in facts.databases]
    if unread:
        return unproven("%s not checked: this Python has no sqlite3" % _enumerate(unread), "validate it elsewhere")
    profiles = {name: db for name, db in facts.databases.items() if name.startswith("ascend_pytorch_profiler")}
    if not profiles:
        return absent("there is no ascend_pytorch_profiler*.db")
    wanted: Tuple[str, ...] = LEVEL0_TABLES if facts.level0 else LEVEL0_TABLES + LEVEL1_TABLES
    counters = not facts.level0 and (facts.info is None or facts.info.metrics != "AiCoreNone")
    # A 910A with PipeUtilization writes no such table, though its text export has the counters (a real export).
    without = counters and all(NO_PMU_TABLE.match(db.chip) and PMU_TABLE not in db.tables for db in profiles.values())
    counters = counters and not without
    wanted += (PMU_TABLE,) if counters else ()
    for name, db in sorted(profiles.items()):
        empty = [table for table in wanted if not db.rows.get(table)]
        if empty:
            return failed("%s: no rows in %s" % (name, ", ".join(empty)), missing=empty)
        if counters and facts.info and facts.info.metrics == "PipeUtilization" and not db.ratios:
            return failed("%s: no core counter is above 0" % name, COLLECT_AGAIN)
        if facts.rank is not None and db.ranks and facts.rank not in db.ranks:
            return failed("%s is of rank %d, the profile of rank %d" % (name, db.ranks[0], facts.rank), OF_OTHERS)
        if without and not facts.exports_text:
            return warned("%s holds no core counters: databases of this chip have none" % name, "export text")
    rows = {table: sum(db.rows.get(table, 0) for db in profiles.values()) for table in wanted}
    return passed("%d databases with the tables of their level" % len(profiles), rows=rows)


@check(
    "api-statistic",
    catches="a table of host calls that was edited, or mixed from two files",
    source="Avg is Time / Count, between Min and Max (all real exports)",
    remedy="parse the raw data again",
)
def api_statistic(facts: Facts) -> Result:
    if facts.api_statistic is None:
        return absent("there is no api_statistic.csv, or it could not be read")
    if facts.api_statistic.contradiction:
        return failed("api_statistic.csv contradicts itself at %s" % facts.api_statistic.contradiction)
    return passed("%d host calls" % facts.api_statistic.rows, rows=facts.api_statistic.rows)
