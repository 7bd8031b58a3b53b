"""The real torch_npu without an NPU: simulated CANN libraries, a simulated msprof and operators on the CPU.

`build` compiles small C stubs under the names of CANN's libraries, so that an unpatched `torch_npu` wheel
imports, owns devices, allocates "device" memory (host memory) and runs its real profiler, whose real parser
then writes the files of a profile. What is real: torch, torch_npu, its profiler, its parser. What is simulated:
the device, CANN, msprof. **Kernel times are invented from the run on the CPU and are never measurements.**

The list of functions that CANN has to offer is read from the installed wheel, not kept here: it differs with
every version of torch_npu.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "kernels"
CANN_VERSION = "8.3.RC1"
# Every library that the wheel is linked to or opens by name.
SONAMES = (
    "libascendcl", "libhccl", "libhcomm", "libacl_op_compiler", "libge_runner", "libgraph", "libacl_tdt_channel",
    "libascend_hal", "libascend_ml", "libmsprofiler", "libmspti", "libruntime", "libnnopbase", "libopapi",
    "libascend_dump", "libms_tools_ext",
)  # fmt: skip
WHEEL_LIBRARIES = ("libtorch_npu.so", "libtensorpipe.so", "libnpu_profiler.so")
CANN_NAME = re.compile(rb"(?<!\w)(?:acl|rt[A-Z]|Hccl[A-Z]|Msprof|mspti[A-Z]|mstx[A-Z]|hal[A-Z])\w{3,80}(?=\0)")


@dataclass(frozen=True)
class Cann:
    """A built toolkit. Nothing in it depends on where it is linked to."""

    toolkit_dir: Path  # what set_env.sh calls ASCEND_TOOLKIT_HOME and ASCEND_HOME_PATH
    lib_dir: Path  # goes to LD_LIBRARY_PATH
    site_dir: Path  # goes to the host's Python, see `pth_line`

    @property
    def bin_dir(self) -> Path:
        """Holds msprof; goes to PATH."""
        return self.toolkit_dir / "bin"

    @property
    def pth_line(self) -> str:
        """One line for a .pth file of the host's Python; costs nothing until torch_npu is imported."""
        return f"import sys; sys.path.append({str(self.site_dir)!r}); import simulated_npu"


def build(cache_dir: Path, ascend_venv: Path) -> Cann:
    """Build below `cache_dir` for the torch_npu of `ascend_venv`, or find what an earlier call built.

    Takes seconds; safe when several processes build at once. Raises FileNotFoundError without torch_npu in the
    venv or without gcc, ValueError for a cache path that torch_npu could not use, RuntimeError when gcc fails.
    """
    package = torch_npu_package(ascend_venv)
    if shutil.which("gcc") is None:
        raise FileNotFoundError("gcc is needed to build the simulated CANN libraries")
    home = Path(os.path.realpath(cache_dir))
    if "tools" in str(home):
        raise ValueError(f"torch_npu finds no msprof below a path with the word 'tools': {home}")
    place = home / f"cann-{_digest(package)}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "cann.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            part = Path(tempfile.mkdtemp(prefix="cann-", suffix=".part", dir=home))
            try:
                _toolkit(part / "toolkit", package)
                _package(HERE / "site", part / "site")
                part.chmod(0o755)
                part.rename(place)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    toolkit = place / "toolkit"
    return Cann(toolkit_dir=toolkit, lib_dir=toolkit / "lib64", site_dir=place / "site")


def torch_npu_package(ascend_venv: Path) -> Path:
    """The directory of the venv's torch_npu package. Raises FileNotFoundError."""
    found = sorted(ascend_venv.glob("lib/python3*/site-packages/torch_npu"))
    if not found:
        raise FileNotFoundError(f"no torch_npu in {ascend_venv}")
    return found[-1]


def _sources() -> list[Path]:
    found = (path for folder in (HERE, KERNELS) for path in folder.rglob("*"))
    return sorted(path for path in found if path.suffix in (".py", ".c", ".h", ".sh"))


def _digest(package: Path) -> str:
    digest = hashlib.sha256((package / "version.py").read_bytes())
    for path in _sources():
        digest.update(str(path.relative_to(HERE.parent)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _toolkit(toolkit: Path, package: Path) -> None:
    arch = f"{platform.machine()}-linux"
    for name in ("runtime", "compiler", "opp", "lib64", "bin", arch, "tools/profiler/bin"):
        (toolkit / name).mkdir(parents=True)
    info = f"package_name=Ascend-cann-toolkit\nversion={CANN_VERSION}\narch={platform.machine()}\nos=linux\n"
    (toolkit / arch / "ascend_toolkit_install.info").write_text(info)
    for component in ("runtime", "compiler"):
        (toolkit / component / "version.info").write_text(f"Version={CANN_VERSION}\n")
    _libraries(toolkit / "lib64", package)
    analysis = toolkit / "tools/profiler/profiler_tool/analysis/msprof"
    analysis.mkdir(parents=True)
    for source in (HERE / "msprof").glob("*.py"):
        shutil.copy(source, analysis)
    _package(KERNELS, analysis / "kernels")
    program = toolkit / "tools/profiler/bin/msprof"
    shutil.copy(HERE / "msprof" / "msprof.sh", program)
    program.chmod(0o755)
    (toolkit / "bin/msprof").symlink_to("../tools/profiler/bin/msprof")


def _package(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def cann_names(package: Path) -> list[str]:
    """Every C function of CANN that the wheel names, linked or looked up; some only look like one."""
    names: set[bytes] = set()
    for library in WHEEL_LIBRARIES:
        names.update(CANN_NAME.findall((package / "lib" / library).read_bytes()))
    return sorted(name.decode() for name in names)


def _libraries(lib_dir: Path, package: Path) -> None:
    """One library with all functions, and one empty library for each name of CANN's that leads to it."""
    sources = sorted(HERE.glob("*.c"))
    written = "".join(source.read_text() for source in sources)
    bodies = set(re.findall(r"^[\w ]+[ *](\w+)\([^;{}]*\) \{", written, re.MULTILINE))
    stubs = lib_dir / "stubs.c"
    stubs.write_text(_stubs([name for name in cann_names(package) if name not in bodies]))
    options = ("-O1", f'-DCANN_VERSION="{CANN_VERSION}"', "-Wl,-soname,libsimcann.so")
    _gcc(*options, "-o", lib_dir / "libsimcann.so", *sources, stubs, "-lpthread")
    empty = lib_dir / "empty.c"
    empty.write_text("")
    for name in SONAMES:
        link = ("-Wl,--no-as-needed", f"-L{lib_dir}", "-lsimcann", "-Wl,-rpath,$ORIGIN")
        _gcc("-o", lib_dir / f"{name}.so", empty, f"-Wl,-soname,{name}.so", *link)
    for source in (stubs, empty):
        source.unlink()


def _stubs(names: list[str]) -> str:
    """Functions without a body of their own: success, but failure where success would mean a result.

    An operator or a collective that is not simulated must end in an error, not in untouched memory.
    """
    lines = ["int sim_success(void) { return 0; }", "int sim_unsupported(void) { return 500001; }"]
    for name in names:
        computes = re.match(r"aclnn|aclop(Compile|Execute)|Hccl(?!GetCommConfigCapability)", name)
        target = "sim_unsupported" if computes else "sim_success"
        lines.append(f'__asm__(".globl {name}\\n.set {name}, {target}\\n.type {name}, %function");')
    return "\n".join(lines) + "\n"


def _gcc(*arguments: object) -> None:
    command = ["gcc", "-shared", "-fPIC", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
