"""A job that runs already: who looks at a directory, and what it is asked there. The jobs here only seem to train."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from collect_agent.drive import jobs
from collect_agent.drive.attend import Attendance, _alone
from collect_agent.failure import Failure
from collect_agent.run import clean, putback
from collect_agent.run.rundir import RunDir

NAME = "profiler_config.json"


def a_run(parent, run_id="20261130_100000_00abcd"):
    """The directory of a run, in a work directory below `parent`."""
    run = RunDir(str(parent / "workdir" / "runs" / run_id))
    os.makedirs(run.path, exist_ok=True)
    Path(run.plan).write_text("{}")
    return run


class Job:
    """A process that looks at `directory`; its log is written by the test."""

    def __init__(self, directory, rank=-1, told=None):
        self.directory, self.rank = directory, rank
        self.run = a_run(directory.parent)
        (directory / "log").mkdir(exist_ok=True)
        (directory / NAME).write_text('{"active": 7, "mine": true}')
        os.utime(directory / NAME, (1700000000, 1700000000))
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(120)"],
            env=dict(os.environ, PROF_CONFIG_PATH=told or str(directory)),
            cwd=str(directory.parent),
        )
        while not Path(f"/proc/{self.process.pid}/environ").read_bytes():
            time.sleep(0.001)  # the kernel lets go of us a moment before
        name = f"dp_{socket.gethostname()}_{self.process.pid}_rank_{rank}.log"
        self.log = directory / "log" / name
        self.log.touch()

    def say(self, text, when=None):
        when = time.time() if when is None else when
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
        with self.log.open("a") as file:
            file.write(f"{stamp},{int(when * 1000) % 1000:03d} [INFO] [1] x.py: {text}\n")

    def timed(self):
        self.say("Dynamic profiling monitor process poll interval time change to 1s", time.time() - 100)
        return self

    def records(self, step=61):
        """As soon as the file has changed."""

        def wait():
            until = time.monotonic() + 20
            while json.loads((self.directory / NAME).read_text()).get("start_step") != -1 and time.monotonic() < until:
                time.sleep(0.01)
            self.say(f"Start Dynamic Profiler at {step} step.")
            self.say(f"Stop Dynamic Profiler at {step + 2} step.", time.time() + 4)

        threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def job(tmp_path):
    (tmp_path / "conf").mkdir()
    started = []

    def start(**options):
        started.append(Job(tmp_path / "conf", **options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def state(job):
    path = job.directory / NAME
    return path.read_text(), path.stat().st_mtime, path.stat().st_mode


def test_who_looks_at_a_directory(job, tmp_path):
    one, two = job(rank=0), job(rank=3, told="conf")
    (tmp_path / "other").mkdir()
    job(rank=5, told=str(tmp_path / "other"))
    (tmp_path / "conf" / "log" / "dp_elsewhere_1_rank_4.log").touch()
    (tmp_path / "conf" / "log" / f"dp_{socket.gethostname()}_1_rank_6.log").touch()
    found = jobs.ranks(str(tmp_path / "conf"))
    assert {rank: each.pid for rank, each in found.items()} == {0: one.process.pid, 3: two.process.pid}
    assert found[0].alive
    one.process.kill()
    one.process.wait()
    assert not found[0].alive


def test_what_is_asked_and_put_back(job):
    running = job().timed()
    before = state(running)
    attendance = Attendance(running.run, str(running.directory), [0], 20)
    attendance.find()
    running.records()
    with attendance.asked({"start_step": -1, "active": 1}):
        said = json.loads(state(running)[0])
        assert said == {"active": 1, "mine": True, "start_step": -1}, "what it does not ask is the job's own"
        assert int(state(running)[1]) > int(time.time()) - 2
        attendance.wait("begun")
        attendance.wait("ended")
    assert state(running) == before
    assert sorted(path.name for path in running.directory.iterdir()) == ["log", NAME]
    warm, step = attendance.before("train", 0), attendance.within("train", 1, 0)
    assert warm["step"] == 61
    assert 1.5 < warm["seconds"] < 2.5, "fifty steps in a hundred seconds"
    assert 1.5 < step["seconds"] < 2.5, "two steps in four seconds"


def test_some_ranks_of_many(job):
    ranks = [job(rank=rank).timed() for rank in (0, 1, 2)]
    attendance = Attendance(ranks[0].run, str(ranks[0].directory), [0, 2], 20)
    attendance.find()
    with attendance.asked({"start_step": -1}):
        said = json.loads(state(ranks[0])[0])
        assert (said["is_rank"], said["rank_list"]) == (True, [0, 2])
    with pytest.raises(Failure, match="has no rank 7 on this host: it has 0, 1, 2"):
        Attendance(ranks[0].run, str(ranks[0].directory), [7], 20).find()


def test_one_asks_at_a_time(tmp_path):
    with _alone(str(tmp_path)):
        with pytest.raises(Failure) as raised, _alone(str(tmp_path)):
            pass
        assert raised.value.entry == "job-busy"
    with _alone(str(tmp_path)):
        pass


def test_nobody_looks(tmp_path):
    with pytest.raises(Failure) as raised:
        Attendance(a_run(tmp_path), str(tmp_path), [0], 1).find()
    assert (raised.value.entry, raised.value.kind) == ("job-not-there", "EnvironmentUnfit")


@pytest.mark.parametrize(
    ("said", "entry"), [("", "job-deaf"), ("Dynamic profiler process load json success", "job-not-stepping")]
)
def test_the_job_does_not_begin(job, said, entry):
    running = job().timed()
    before = state(running)
    attendance = Attendance(running.run, str(running.directory), [0], 0.3)
    attendance.find()
    with pytest.raises(Failure) as raised, attendance.asked({"start_step": -1}):
        if said:
            running.say(said)
        attendance.wait("begun")
    assert raised.value.entry == entry
    assert state(running) == before


def test_the_job_ends_meanwhile(job):
    running = job().timed()
    before = state(running)
    attendance = Attendance(running.run, str(running.directory), [0], 20)
    attendance.find()
    with pytest.raises(Failure) as raised, attendance.asked({"start_step": -1}):
        running.say("Start Dynamic Profiler at 61 step.")
        attendance.wait("begun")
        running.process.kill()
        running.process.wait()
        attendance.wait("ended")
    assert raised.value.entry == "job-ended"
    assert state(running) == before


def test_a_log_that_was_begun_anew(job):
    running = job().timed()
    running.log.rename(running.log.with_name(running.log.name + ".1"))
    running.log.touch()
    (rank,) = jobs.ranks(str(running.directory)).values()
    assert [mark.what for mark in rank.marks()] == ["timed"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_file_of_somebody_else(job):
    running = job().timed()
    attendance = Attendance(running.run, str(running.directory), [0], 20)
    attendance.find()
    running.directory.chmod(0o500)
    with pytest.raises(Failure) as raised, attendance.asked({}):
        pass
    assert raised.value.entry == "job-not-asked"


def test_a_file_that_is_gone(job):
    running = job().timed()
    attendance = Attendance(running.run, str(running.directory), [0], 20)
    attendance.find()
    (running.directory / NAME).unlink()
    with pytest.raises(Failure) as raised, attendance.asked({}):
        pass
    assert raised.value.entry == "job-not-asked"


# --- a run that was killed, all of it at once, while the file said what it wanted ---


def killed_while_it_asked(running, **asked):
    """What the file was before. Of a process that is killed nothing is undone."""
    before = state(running)
    attendance = Attendance(running.run, str(running.directory), [0], 20)
    attendance.find()
    running.asking = attendance.asked({"start_step": -1, **asked})  # kept: one that is forgotten is closed
    running.asking.__enter__()
    assert state(running) != before
    return before


def test_whoever_comes_to_its_end_puts_the_file_back(job):
    running = job().timed()
    before = killed_while_it_asked(running)
    putback.put_back(RunDir(running.run.path))
    assert state(running) == before
    assert not os.path.exists(running.run.changed)


def test_the_next_run_begins_with_what_was_the_jobs_own(job, tmp_path):
    running = job().timed()
    before = killed_while_it_asked(running, mine=False)
    again = a_run(tmp_path, "20261130_110000_00abcd")
    with Attendance(again, str(running.directory), [0], 20).asked({"active": 1}):
        assert json.loads(state(running)[0]) == {"active": 1, "mine": True}
    assert state(running) == before
    putback.put_back(running.run)
    assert state(running) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files to others")
def test_the_file_stays_whose_it_is(job):
    """Root asks the job of a user, who reads it: torch_npu makes the file for its own user and group alone."""
    running = job().timed()
    os.chown(running.directory / NAME, 1234, 1234)
    (running.directory / NAME).chmod(0o640)

    def rights():
        status = (running.directory / NAME).stat()
        return status.st_uid, status.st_gid, status.st_mode & 0o777

    killed_while_it_asked(running)
    assert rights() == (1234, 1234, 0o640)
    putback.put_back(running.run)
    assert rights() == (1234, 1234, 0o640)


def test_what_somebody_else_has_written_meanwhile_is_theirs(job):
    running = job().timed()
    killed_while_it_asked(running)
    (running.directory / NAME).write_text("{}")
    putback.put_back(running.run)
    assert state(running)[0] == "{}"
    assert not os.path.exists(running.run.changed)


def test_a_note_that_was_cut_off_harms_nobody(job, tmp_path):
    running = job().timed()
    before = state(running)
    Path(running.run.changed).write_text('{"path": ')
    assert clean.clean(str(tmp_path / "workdir"), [running.run.id], True, "")["removed"] == [running.run.id]
    assert state(running) == before
