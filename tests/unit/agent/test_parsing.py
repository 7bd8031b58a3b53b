"""What is parsed, what ended a parser, where else one can work, and that nothing of it stays."""

from __future__ import annotations

import ast
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from collect_agent.output import elsewhere, harvest, parse, parsed
from collect_agent.output.elsewhere import Place
from collect_agent.run import runlog
from collect_agent.run.rundir import RunDir

PLAN: dict[str, Any] = {
    "files": {},
    "salvage": False,
    "node": None,
    "expected": {"steps": {"both": 6}, "export": ["text"], "ranks": [0]},
}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(str(tmp_path / "runs" / "r1"))
    run.create(PLAN)
    Path(run.log).touch()
    return run


@pytest.fixture
def profile(run: RunDir) -> Path:
    """Recorded, closed, and not parsed."""
    directory = Path(run.profile, "both", "host_1_2_ascend_pt")
    (directory / "PROF_000001_20261129_AB" / "device_0").mkdir(parents=True)
    (directory / "PROF_000001_20261129_AB" / "device_0" / "data").write_text("raw")
    (directory / "FRAMEWORK").mkdir()
    (directory / "profiler_info.json").write_text("{}")
    return directory


def parse_well(directory: Path) -> None:
    output = directory / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(exist_ok=True)
    (output / "trace_view.json").write_text('[{"name": "a"}]\n')
    for name in ("kernel_details.csv", "step_trace_time.csv"):
        (output / name).write_text("Name\nx\n")


def fake_torch_npu(tmp_path: Path, body: str) -> dict[str, str]:
    """An environment with a torch_npu whose `analyse` does `body`."""
    module = tmp_path / "site" / "torch_npu" / "profiler"
    module.mkdir(parents=True)
    (module / "profiler.py").write_text("import os, time\ndef analyse(directory, export_type=None):\n    " + body)
    return {"PYTHONPATH": str(tmp_path / "site")}


def run_parser(directory: Path, environment: dict[str, str], limit: float = 30.0, **more: Any) -> parse.Ended:
    return parse.parse(str(directory), ["text"], environment, str(directory), limit, more.get("beat", lambda s: None))


# --- is it parsed? ----------------------------------------------------------------------------------------------------


def test_a_whole_output_is_parsed(profile: Path) -> None:
    assert parsed.unfinished(str(profile), ["text"]) == "it was not parsed"
    parse_well(profile)
    assert parsed.unfinished(str(profile), ["text"]) == ""


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("trace_view.json", '[{"name": "a"}', "is cut off"),
        ("trace_view.json", "", "is cut off"),
        ("trace_view.json", "[]\0\0\0", "is cut off"),
        ("kernel_details.csv", "Name\nhalf a ro", "is cut off"),
        ("kernel_details.csv", None, "is not there"),
        ("op_statistic.csv", "half", "is cut off"),
    ],
)
def test_a_damaged_output_is_not(profile: Path, name: str, content: str | None, why: str) -> None:
    parse_well(profile)
    path = profile / "ASCEND_PROFILER_OUTPUT" / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)
    assert parsed.unfinished(str(profile), ["text"]) == f"{name} {why}"


def test_a_database_is_whole_to_its_last_page(profile: Path) -> None:
    output = profile / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    assert parsed.unfinished(str(profile), ["db"]) == "it was not parsed"
    path = output / "ascend_pytorch_profiler_3.db"
    with sqlite3.connect(path) as database:
        database.execute("create table t (x)")
        database.executemany("insert into t values (?)", [("x" * 100,)] * 1000)
    database.close()
    assert parsed.unfinished(str(profile), ["db"]) == ""
    assert parsed.unfinished(str(profile), ["text"]).endswith("are not there"), "text was asked for"
    os.truncate(path, path.stat().st_size - 1)
    assert parsed.unfinished(str(profile), ["db"]) == "ascend_pytorch_profiler_3.db is cut off"


def test_only_a_closed_window_survives_its_program(run: RunDir, profile: Path) -> None:
    last = {"stage": "parse", "window": "both"}
    assert harvest.died_while_parsing(run, PLAN, last)
    assert not harvest.died_while_parsing(run, PLAN, {"stage": "profile", "window": "both"})
    two = {**PLAN, "expected": {"steps": {"both": 6, "more": 5}, "ranks": [0]}}
    assert not harvest.died_while_parsing(run, two, last)
    ranks = {**PLAN, "expected": {"steps": {"both": 6}, "ranks": [0, 1]}}
    assert not harvest.died_while_parsing(run, ranks, last)
    assert not harvest.died_while_parsing(run, {**PLAN, "node": {"rank": 1, "count": 2}}, last), "others are elsewhere"
    (profile / "profiler_info.json").unlink()
    assert not harvest.died_while_parsing(run, PLAN, last)


# --- the parser -------------------------------------------------------------------------------------------------------


def test_the_parser_gets_the_programs_environment(profile: Path, tmp_path: Path) -> None:
    body = "open(os.path.join(directory, export_type), 'w').write(repr(dict(os.environ)))"
    given_to = {**fake_torch_npu(tmp_path, body), "MINE": "1"}
    assert run_parser(profile, given_to) == parse.Ended()
    assert given_to.items() <= ast.literal_eval((profile / "text").read_text()).items()


def test_a_parser_of_old_knows_no_export_type(profile: Path, tmp_path: Path) -> None:
    environment = fake_torch_npu(tmp_path, "open(os.path.join(directory, 'done'), 'w')")
    module = tmp_path / "site" / "torch_npu" / "profiler" / "profiler.py"
    module.write_text(module.read_text().replace(", export_type=None", ""))
    assert run_parser(profile, environment) == parse.Ended()
    assert (profile / "done").exists()


WAITS_FOR_THE_OTHER = """open(os.path.join(directory, 'begun'), 'w').close()
    until = time.monotonic() + {patience}
    while len(glob.glob(directory + '/../*/begun')) < 2 and time.monotonic() < until: time.sleep(0.01)
    print('met' if len(glob.glob(directory + '/../*/begun')) == 2 else 'alone', os.path.basename(directory))"""


@pytest.mark.parametrize(("at_once", "met"), [(2, 2), (1, 1)])
def test_so_many_are_parsed_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str], at_once: int, met: int) -> None:
    environment = fake_torch_npu(tmp_path, WAITS_FOR_THE_OTHER.format(patience=20 if at_once == 2 else 0.2))
    module = tmp_path / "site" / "torch_npu" / "profiler" / "profiler.py"
    module.write_text("import glob\n" + module.read_text())
    limits = {str(tmp_path / "all" / name): 30.0 for name in ("a", "b")}
    for directory in limits:
        Path(directory).mkdir(parents=True)
    ended = parse.parse_all(limits, at_once, ["text"], environment, str(tmp_path), lambda _: None)
    assert ended == dict.fromkeys(limits, parse.Ended())
    assert capfd.readouterr().out.count("met ") == met


def test_a_parser_that_hangs_is_ended_with_its_children(profile: Path, tmp_path: Path) -> None:
    body = "print(os.fork(), flush=True); open(os.path.join(directory, str(os.getpid())), 'w'); time.sleep(600)"
    begun = time.monotonic()
    ended = run_parser(profile, fake_torch_npu(tmp_path, body), limit=2.0)
    assert ended.problem == "the parser had not ended after 2 s"
    assert ended.movable
    assert time.monotonic() - begun < 30
    pids = [int(path.name) for path in profile.iterdir() if path.name.isdigit()]
    assert len(pids) == 2
    until = time.monotonic() + 10
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_is_alive(pid) for pid in pids)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_parser_that_takes_long_is_told_of(
    profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parse, "BEAT_S", 0.2)
    monkeypatch.setattr(parse, "TICK_S", 0.05)
    beats: list[float] = []
    body = "[(print('|' + chr(8), end='', flush=True), time.sleep(0.1)) for _ in range(10)]; print('done')"
    run_parser(profile, fake_torch_npu(tmp_path, body), beat=beats.append)
    assert len(beats) >= 2
    assert beats == sorted(beats)
    assert capfd.readouterr().out == "done\n", "no turning cursor in our log"


SAYS = "[2026-11-29 21:00:00] [ERROR] [7] profiler.py: "


@pytest.mark.parametrize(
    ("status", "said", "problem", "movable"),
    [
        (0, ["All profiling data parsed in a total time of 1"], "", False),
        (-9, [], "memory", False),
        (137, [], "memory", False),
        (-11, [], "SIGSEGV", True),
        (1, ["Traceback", "OSError: [Errno 5] Input/output error"], "Input/output error", True),
        (0, [SAYS + "Task [CANNExportParser] run failed.", SAYS + "Failed to export"], "Failed to export", True),
        (0, [SAYS + "Task [KernelViewParser] run failed."], "run failed", True),
        (0, ["Task kernel has not run successfully."], "has not run successfully", True),
        (0, [SAYS + "Export CANN Profiling data failed! 'msprof' command not found!"], "msprof", False),
        (0, [SAYS + "Failed to find msprof.py path in /a"], "msprof.py", False),
        (0, [SAYS + "Failed to get acl to npu flow events."], "", False),
        (0, [SAYS + "ProfilerActivity.NPU is set, but CANN Profiling data does not exist."], "does not exist", False),
        (1, ["ModuleNotFoundError: No module named 'torch_npu'"], "torch_npu", False),
    ],
)
def test_what_ended_a_parser(status: int, said: list[str], problem: str, movable: bool) -> None:
    ended = parse.judged(status, said)
    assert problem in ended.problem
    assert bool(ended.problem) == bool(problem)
    assert ended.movable is movable


def test_raw_data_are_closed_to_others(profile: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(0o666)
    outside.chmod(0o666)
    folder = profile / "PROF_000001_20261129_AB" / "device_0"
    (folder / "link").symlink_to(outside)
    folder.chmod(0o777)
    (folder / "data").chmod(0o666)
    parse.close_to_others(str(profile))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "data").stat().st_mode) == 0o644
    assert stat.S_IMODE(outside.stat().st_mode) == 0o666


# --- other places -----------------------------------------------------------------------------------------------------


def test_a_local_place_comes_first_then_the_faster_one() -> None:
    nfs = Place("/nfs", "nfs4", 1, 100, 9e9)
    overlay = Place("/tmp", "overlay", 2, 100, 5e9)
    disk = Place("/var/tmp", "ext4", 3, 100, 1e8)
    memory = Place("/dev/shm", "tmpfs", 4, 100, 1e9)
    assert elsewhere.ranked([nfs, overlay, disk, memory], 50, here=9) == [memory, disk, nfs, overlay]
    assert elsewhere.ranked([nfs], 50, here=9) == [nfs], "where there is nothing else"


def test_a_place_needs_room_and_another_file_system() -> None:
    full, here = Place("/a", "ext4", 1, 49, 1.0), Place("/b", "ext4", 2, 100, 1.0)
    slow, fast = Place("/c", "xfs", 3, 100, 1.0), Place("/d", "xfs", 3, 100, 2.0)
    assert elsewhere.ranked([full, here, slow, fast], 50, here=2) == [fast]


def test_the_type_is_that_of_the_longest_mount_point() -> None:
    mounts = "\n".join(
        f"1 0 0:1 / {point} rw - {kind} none rw"
        for point, kind in (("/", "overlay"), ("/tmp", "ext4"), ("/tmp/my\\040dir", "nfs4"), ("/tmp", "tmpfs"))
    )
    kinds = {path: elsewhere.kind_of(path, mounts) for path in ("/", "/tmp", "/tmpx", "/tmp/a/b", "/tmp/my dir/x")}
    assert kinds == {"/": "overlay", "/tmp": "tmpfs", "/tmpx": "overlay", "/tmp/a/b": "tmpfs", "/tmp/my dir/x": "nfs4"}


def test_a_place_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    place = elsewhere.measure(str(tmp_path))
    assert place is not None
    assert place.device == tmp_path.stat().st_dev
    assert place.speed > 0
    assert place.free > 0
    assert list(tmp_path.iterdir()) == []
    assert elsewhere.measure(str(tmp_path / "nowhere")) is None


def test_a_place_that_hangs_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "PROBE_S", 0.2)
    monkeypatch.setattr(elsewhere, "_probed", lambda path: time.sleep(600))
    assert elsewhere.measure(str(tmp_path)) is None


def test_candidates_have_names_that_the_parser_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me@site")
    assert elsewhere.candidates({"TMPDIR": "/scratch/a:b"}) == [os.path.realpath(p) for p in elsewhere.CANDIDATES]
    assert elsewhere.candidates({"TMPDIR": "relative"})[0] == os.path.realpath(elsewhere.CANDIDATES[0])
    assert elsewhere.candidates({"TMPDIR": "/scratch"})[0] == "/scratch"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "place").mkdir()
    return Place(str(tmp_path / "place"), "tmpfs", 1, 1 << 30, 1.0)


def test_a_copy_is_ours_and_goes(run: RunDir, profile: Path, place: Place) -> None:
    (profile / "PROF_000001_20261129_AB").chmod(0o777)
    (profile / "ASCEND_PROFILER_OUTPUT").mkdir()
    (profile / "ASCEND_PROFILER_OUTPUT" / "old").touch()
    with elsewhere.Copy(run, str(profile), place) as copy:
        there = Path(copy.directory)
        assert sorted(path.name for path in there.iterdir()) == [
            "FRAMEWORK",
            "PROF_000001_20261129_AB",
            "profiler_info.json",
        ]
        assert (there / "PROF_000001_20261129_AB" / "device_0" / "data").read_text() == "raw"
        assert not (there / "PROF_000001_20261129_AB").stat().st_mode & 0o022
        parse_well(there)
        copy.bring_back()
    assert list(Path(place.path).iterdir()) == []
    assert parsed.unfinished(str(profile), ["text"]) == ""
    assert not (profile / "ASCEND_PROFILER_OUTPUT" / "old").exists()


def test_what_a_killed_supervisor_left_is_removed_later(
    run: RunDir, profile: Path, place: Place, tmp_path: Path
) -> None:
    elsewhere.Copy(run, str(profile), place).__enter__()
    (tmp_path / "precious").mkdir()
    elsewhere.note(run, str(tmp_path / "precious"))
    elsewhere.note(run, str(tmp_path / "collect_remote_another"))
    elsewhere.remove_copies(run)
    assert list(Path(place.path).iterdir()) == []
    assert (tmp_path / "precious").is_dir(), "only what bears the run's name"


def test_a_directory_that_somebody_else_has_put_there_is_not_used(run: RunDir, profile: Path, place: Place) -> None:
    squat = Path(place.path, "collect_remote_r1")
    squat.mkdir()
    with pytest.raises(FileExistsError), elsewhere.Copy(run, str(profile), place):
        pass
    assert squat.is_dir()


# --- all of it --------------------------------------------------------------------------------------------------------


def test_parsed_elsewhere_and_told_so(
    run: RunDir, profile: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "places", lambda *_: [Place("/nowhere", "tmpfs", 2, 1 << 30, 1.0), place])
    complains = f"""
    out = os.path.join(directory, 'ASCEND_PROFILER_OUTPUT')
    if not directory.startswith({place.path!r}):
        print({SAYS!r} + 'database is locked')
        return
    os.mkdir(out)
    open(out + '/trace_view.json', 'w').write('[]')
    for name in ('kernel_details.csv', 'step_trace_time.csv'):
        open(out + '/' + name, 'w').write('Name' + chr(10))
"""
    told: list[dict[str, Any]] = []
    environment = fake_torch_npu(tmp_path, complains.lstrip())
    harvested = harvest.harvest(run, PLAN, environment, lambda **event: told.append(event))
    assert harvested.found == {"both": [str(profile)]}
    how = harvested.parsed[profile.name]
    assert (how["how"], how["where"]) == ("offline", place.path)
    assert [attempt["problem"] for attempt in how["tried"]] == [
        "it was not parsed",
        "the parser says: database is locked",
        "it cannot be copied to /nowhere: No such file or directory",
    ]
    assert [event["where"] for event in told] == [str(profile), place.path]
    assert harvest.check(harvested)["verdict"] == "pass"
    assert list(Path(place.path).iterdir()) == []


def test_the_log_is_tidied_in_place(run: RunDir) -> None:
    turning = b"".join(bytes([letter, 8]) for letter in b"|/-\\" * 3)
    Path(run.log).write_bytes(b"before\n" + turning + b"after\n\x08" + b"x" * 10)
    inode = os.stat(run.log).st_ino
    for block in (1, 2, 3, 1 << 20):
        runlog.BLOCK, whole = block, runlog.BLOCK
        try:
            runlog.tidy(run)
        finally:
            runlog.BLOCK = whole
        assert Path(run.log).read_bytes() == b"before\nafter\n" + b"x" * 10
    assert os.stat(run.log).st_ino == inode


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_a_cursor_across_blocks(run: RunDir, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(runlog, "BLOCK", block)
    Path(run.log).write_bytes(b"ab|\x08/\x08-\x08c\n|\x08d")
    runlog.tidy(run)
    assert Path(run.log).read_bytes() == b"abc\nd"


def test_raw_data_go_into_the_archive_only_when_asked_for(profile: Path) -> None:
    parse_well(profile)
    harvested = harvest.Harvest({"both": [str(profile)]}, {})
    lean = {name for name, _ in harvest.members(harvested, keep_raw=False)}
    full = {name for name, _ in harvest.members(harvested, keep_raw=True)}
    assert {name.split("/")[3] for name in full - lean} == {"PROF_000001_20261129_AB"}
    assert "profile_l1/both/host_1_2_ascend_pt/profiler_info.json" in lean
