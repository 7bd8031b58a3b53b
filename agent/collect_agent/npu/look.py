"""What this host says about its NPUs, as plain data: `look()`. To be read by `interpret`.

Imported by the agent, and sent as text by the survey to whatever `python3` a host has: Python 2.7 and every 3.x
understand it, and it imports nothing of ours.
"""

import os
import pwd
import re
import select
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional  # noqa: F401 - used in comments

clock = getattr(time, "monotonic", time.time)  # Python 2.7 has only the latter
# Where driver packages put npu-smi besides PATH: as root, other releases and images, a copy in some.
USUAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/local/dcmi")
LATE = 124  # exit status of what had to be killed, as coreutils' timeout has it
# Containers may refuse npu-smi where torch_npu works: -9005, and -8020 without the driver's mounts.
REFUSED = re.compile(r"ret is -(?:9005|8020)\b")
REFUSED_STATUSES = (-9005 % 256, -8020 % 256)
NOT_RUN = (126, 127)
# What runtimes leave in a container. Of the mounts only that of / counts: a host has those of its containers too.
CONTAINER_MARKS = (
    ".dockerenv",
    "run/.containerenv",
    "run/systemd/container",
    "run/secrets/kubernetes.io",
    "var/run/secrets/kubernetes.io",
)
CONTAINER_TRACES = (
    ("proc/1/cgroup", b"docker|kubepods|containerd|lxc"),
    ("proc/1/environ", b"(?:^|\0)container=[^\0]"),
    ("proc/self/mountinfo", b"(?m)^(?:\\S+ ){4}/ .*? - overlay .*(?:docker|kubepods|containerd|/containers/|lxc)"),
)
TORCH = """
import json, torch, torch_npu
seen = []
for logic in range(torch.npu.device_count()):
    try:
        free, total = torch.npu.mem_get_info(logic)
        seen.append({"logic": logic, "name": torch.npu.get_device_name(logic), "free": free, "total": total})
    except Exception as error:
        seen.append({"logic": logic, "error": (str(error).splitlines() or [repr(error)])[0]})
print("\\ntorch_npu sees " + json.dumps(seen))
"""


def look(seconds=45.0, ask_torch=True):
    # type: (float, bool) -> Dict[str, Any]
    """Ask npu-smi, all within `seconds`; what does not answer until then is killed and has the status LATE.

    {"npu_smi": its path or None, "in_container": bool, "info": [exit status, text], "mapping": [...], "owners": {pid:
    [user, name]}}, where the text is stdout and stderr. When `info` shows no table: also "list", and "usages" and
    "processes" by NPU id. When it is refused in a container: "torch", as [exit status, text with a line "torch_npu
    sees" and JSON], unless `ask_torch` is false: asking it opens every device.
    """
    until = clock() + seconds
    running = []  # type: List[subprocess.Popen[bytes]]
    driver = _driver()
    path = _npu_smi(driver)
    seen = {"npu_smi": path, "in_container": _in_container()}  # type: Dict[str, Any]
    if path is None:
        return seen
    environment = _environment(driver)

    def ask(commands):
        # type: (List[List[str]]) -> List[List[Any]]
        """All at once; the answers in the same order."""
        processes = [_start(command, environment, running) for command in commands]
        return [_answer(process, until) if process else [126, ""] for process in processes]

    def info(*arguments):
        # type: (str) -> List[str]
        return [path, "info"] + list(arguments)  # noqa: RUF005 - Python 2.7

    try:
        seen["info"], seen["mapping"] = ask([info(), info("-m")])
        status, text = seen["info"]
        seen["owners"] = _owners(text)
        if "Bus-Id" in text or status in (LATE,) + NOT_RUN:  # noqa: RUF005
            pass
        elif REFUSED.search(text) or status in REFUSED_STATUSES:
            if ask_torch:
                environment.pop("ASCEND_RT_VISIBLE_DEVICES", None)  # it would number anew what it leaves visible
                (seen["torch"],) = ask([[sys.executable, "-c", TORCH]])
        elif "ret is -" not in text:
            (seen["list"],) = ask([info("-l")])
            npus = re.findall(r"NPU ID\s*:\s*([0-9]{1,9})\b", seen["list"][1])
            answers = ask([info("-t", form, "-i", npu) for form in ("usages", "proc-mem") for npu in npus])
            seen["usages"] = dict(zip(npus, answers[: len(npus)]))
            seen["processes"] = dict(zip(npus, answers[len(npus) :]))
    finally:
        for process in running:
            _end(process)
    return seen


def _owners(text):
    # type: (str) -> Dict[str, List[str]]
    """Whose the processes are, and the kernel's name for them, of all numbers in npu-smi's list that are pids here."""
    owners = {}  # type: Dict[str, List[str]]
    for pid in re.findall(r"\b[0-9]{1,9}\b", text.partition("Process id")[2]):
        try:
            with open("/proc/{}/comm".format(pid)) as file:
                name = file.read().strip()
            owners[pid] = [pwd.getpwuid(os.stat("/proc/{}".format(pid)).st_uid).pw_name, name]
        except (IOError, OSError, ValueError, KeyError):  # no such process, or a user without a name
            pass
    return owners


def _npu_smi(driver):
    # type: (str) -> Optional[str]
    """Its path: on PATH, in the usual places, or somewhere in the driver's directory."""
    usual = os.environ.get("PATH", "").split(":") + list(USUAL_FOLDERS)
    for folders in (usual, (folder for folder, _, _ in os.walk(driver))):
        for folder in folders:
            path = os.path.join(folder, "npu-smi")
            if folder and os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return None


def _driver():
    # type: () -> str
    """The directory of the driver, which its installer writes down."""
    found = None
    if os.path.isfile("/etc/ascend_install.info"):
        with open("/etc/ascend_install.info") as file:
            found = re.search(r"(?m)^Driver_Install_Path_Param=(/\S+)", file.read())
    return os.path.join(found.group(1) if found else "/usr/local/Ascend", "driver")


def _environment(driver):
    # type: (str) -> Dict[str, str]
    """The library path is the driver's, which CANN's set_env.sh does not always add. npu-smi needs all three."""
    lib64 = os.path.join(driver, "lib64")
    folders = [lib64, os.path.join(lib64, "common"), os.path.join(lib64, "driver")]
    folders = [folder for folder in folders if os.path.isdir(folder)]
    folders += [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return dict(os.environ, LC_ALL="C", LD_LIBRARY_PATH=":".join(folders))


def _in_container(root="/"):
    # type: (str) -> bool
    """Whether this is a container, whose runtime numbers the devices anew. `root`: the directory of its file system."""
    if any(os.path.exists(os.path.join(root, mark)) for mark in CONTAINER_MARKS):
        return True
    for path, trace in CONTAINER_TRACES:
        try:
            with open(os.path.join(root, path), "rb") as file:
                if re.search(trace, file.read()):
                    return True
        except (IOError, OSError):  # pid 1's environment is root's
            pass
    return False


def _start(command, environment, running):
    # type: (List[str], Dict[str, str], List[subprocess.Popen[bytes]]) -> Optional[subprocess.Popen[bytes]]
    with open(os.devnull) as null:
        try:
            process = subprocess.Popen(
                command, stdin=null, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
            )
        except OSError:
            return None
    running.append(process)
    return process


def _answer(process, until):
    # type: (subprocess.Popen[bytes], float) -> List[Any]
    """[exit status, text] of a process; LATE and what it has printed when it does not end in time."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    pieces = []
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN | select.POLLHUP)
    late = False
    while not late:
        late = not poller.poll(max(0.0, until - clock()) * 1000)
        piece = b"" if late else os.read(process.stdout.fileno(), 65536)
        if not piece:
            break
        pieces.append(piece)
    while not late and process.poll() is None:  # it has closed its output and is about to end
        time.sleep(0.002)
        late = clock() > until
    process.stdout.close()
    if late:
        _end(process)
    return [LATE if late else process.returncode, b"".join(pieces).decode("utf-8", "replace")]


def _end(process):
    # type: (subprocess.Popen[bytes]) -> None
    """Kill it, unless it has ended, and wait for that, but not for long: a wedged card holds it even then."""
    until = clock() + 0.2
    while process.poll() is None and clock() < until:
        process.kill()
        time.sleep(0.002)
