"""What ends a run on the host, as docs/troubleshooting.md has it.

What torch_npu and CANN say is in `remedies`, npu-smi's own failures are in `npu.failures`, what is wrong with a profile
in `validate`.
"""

from __future__ import annotations

from .failure import Trouble

FREE_SPACE = "free some space there, or name another directory with `workdir` in the inventory"

# --- before it begins ---

NO_SUCH_DEVICE = Trouble(
    "no-such-device",
    "UsageError",
    "there is no NPU {name!r} on the host",
    "an id of another kind: there are NPU ids, chip ids and logic ids, and a container has only some of the devices",
    'the host has: {present} (a logic id is written "logic:7")',
)

NO_RUN_DIRECTORY = Trouble(
    "run-directory",
    "StorageError",
    "cannot make the run directory {path}: {why}",
    "the disk is full, a quota is used up, or the rights of `workdir` have changed since the survey",
    FREE_SPACE,
)
NO_LEASE = Trouble(
    "lease-files",
    "EnvironmentUnfit",
    "{device} cannot be leased: {why}",
    "leases are locks on files in /tmp, or in the directory that COLLECT_REMOTE_LEASE_DIR names; it is full, "
    "read-only, or not for this user",
    "name a directory that all users can write to in {variable}",
)

# --- while the program runs ---

NO_DEVICE = Trouble(
    "no-usable-device",
    "EnvironmentUnfit",
    "torch.npu.is_available() is False (ASCEND_RT_VISIBLE_DEVICES={ids})",
    "there is no device that it may use: the rights on /dev/davinci*, the driver, or an id that the container has not",
    "check the driver with npu-smi info as this user; a profile is never taken on the CPU",
)
NOT_OPENED = Trouble(
    "device-does-not-open",
    "EnvironmentUnfit",
    "the device does not open: {said}",
    "many causes have the same code; CANN's own first line (EL0003, E30006, ...) is shown behind it",
    "read CANN's own log (~/ascend/log): the code alone has many causes, a driver that does not fit among them",
    ("open device 0 failed, runtime result = 507033",),
)
DEVICE_COUNT = Trouble(
    "device-count",
    "EnvironmentUnfit",
    "{given} devices were made visible, and torch.npu counts {counted}",
    "something has changed ASCEND_RT_VISIBLE_DEVICES before torch_npu read it: sitecustomize, a wrapper of Python, "
    "`env`",
    "see that nothing in the host's Python or `env` changes ASCEND_RT_VISIBLE_DEVICES",
)
NO_ADAPTER = Trouble(
    "adapter-import",
    "EnvironmentUnfit",
    "the adapter {adapter} cannot be imported: {why}",
    "it imports something that this Python has not",
    "install what it needs in the host's Python, or use another adapter",
)
MODEL_RAISED = Trouble(
    "model-raised",
    "RunFailed",
    "the model raised {error}: {said} ({place})",
    "the model's own code, or something that it calls, while it was loaded or run",
    "the end of the host's log shows where it came from",
)
DIED = Trouble(
    "process-died",
    "RunFailed",
    "{how}",
    "SIGKILL: mostly the host ran out of memory. SIGABRT, SIGSEGV: CANN, whose first line of its own is shown. A "
    "status: something that the model calls ends the process",
    "read {log}",
    (
        "the profiling process was killed by SIGABRT: EH9999: Inner Error!",
        "the profiling process ended with exit status 1: ...",
    ),
)
RANK_ENDED = Trouble(
    "rank-ended",
    "RunFailed",
    "rank {rank} ended in its stage {stage}, and the others wait for it",
    "a rank left its process without an error, which torchrun takes for a good end",
    "see that the model does not leave its process: the end of the host's log may show where it did",
)
NO_DATA = Trouble(
    "no-data",
    "RunFailed",
    "the profiler left no data for {window}{said}",
    "a call of the profiler failed, and torch_npu prints one line and goes on: it stands behind the colon",
    "read {log}",
)
LATE = Trouble(
    "not-finished",
    "RunFailed",
    "not finished after {seconds:g} s (the run's time limit)",
    "a large model from a slow disk, operators that are compiled, a parser with much to read, or something that hangs",
    "give it more with --timeout, or read {log} to see where it hangs",
)
ALONE = Trouble(
    "nobody-followed",
    "Interrupted",
    "nobody followed the run for {seconds:g} s",
    "the tool was killed, or its machine slept or lost its network: a run that nobody follows gives its device back",
    "start it again, with --detach if it is to go on alone",
)
STOPPED = Trouble(
    "stopped",
    "Interrupted",
    "the run was stopped on request",
    "`collect-remote stop`, a Ctrl-C where it was followed, or a SIGTERM on the host",
    "start it again",
)
NO_KEEPER = Trouble(
    "devices-not-kept",
    "RunFailed",
    "the host no longer keeps the devices of the run in the container {container}",
    "the keeper on the host was killed, or the engine has not let it into the container for a minute",
    "see that nobody ends the agent on the host, and that the container's engine answers there",
)

# --- a program that is not ours ---

NOT_STARTED = Trouble(
    "command-not-started",
    "RunFailed",
    "{command} cannot be started in {cwd}: {why}",
    "the command is not on the PATH of a run, or is not executable",
    "correct `command` in the inventory: it is run without a shell, in `project`",
)
SHIM_NOT_LOADED = Trouble(
    "shim-not-loaded",
    "EnvironmentUnfit",
    "the start-up shim was not loaded by {who}{said}",
    "the command started no Python, or one with -I, -E or -S, or something on the way reset PYTHONPATH",
    "let the command keep PYTHONPATH and COLLECT_REMOTE_SHIM; read {log}",
)
RANK_MISPLACED = Trouble(
    "rank-misplaced",
    "EnvironmentUnfit",
    "rank {rank} of the job was started on this host, whose ranks are {first} to {last}",
    "the launcher numbers the hosts itself: by a --node_rank of its own, or by the order of IPs in set_env.sh of "
    "cann-recipes-infer, where a host that is not among them takes itself for the first",
    "name the hosts in the launcher's order (--host, --nodes), or let it take theirs",
)
NO_SUCH_CALL = Trouble(
    "no-such-call",
    "UsageError",
    "there is no {call} to take for a step: {why}",
    "the name is written as package.module:Class.method, and the module is one that the program imports",
    "correct `step_on` (or `scheduler`) in the inventory",
)
CALL_NOT_MADE = Trouble(
    "call-not-made",
    "RunFailed",
    "no call of {call} was a step of {phase}; there were {seen}",
    "another class runs that has a method of its own of that name, calls are replayed from a graph, or their input has "
    "more tokens, or fewer, than those of the phase",
    "correct `step_on` in the inventory, or ask for the phase that its calls are (--phase)",
)
PROFILER_NOT_IMPORTED = Trouble(
    "profiler-not-imported",
    "RunFailed",
    "the program ended without importing torch_npu.profiler ({ending}){said}",
    "it failed before, it runs on something else than an NPU, or its switch for profiling was not heard",
    "read {log}",
)
PROFILER_NOT_BUILT = Trouble(
    "profiler-not-built",
    "RunFailed",
    "the program imported torch_npu.profiler and built no profiler ({ending}){said}",
    "its switch for profiling was not heard, or it ended before it came to it",
    "see that the program has the switch that the plan uses (--dry-run shows it), and read {log}",
)
NO_WINDOW = Trouble(
    "no-window",
    "RunFailed",
    "rank {rank} built no profiler for {phase}; there were {seen}{said}",
    "the rank crashed while the others went on, or the program records this phase elsewhere or not at all",
    "read {log}",
)
NOT_CLOSED = Trouble(
    "window-not-closed",
    "RunFailed",
    "rank {rank} ended before its window of {phase} was closed ({ending}){said}",
    "it crashed, or was ended by the others; an exit status of 0 does not say that it did not",
    "read {log}",
)
RANK_LOST = Trouble(
    "rank-lost",
    "RunFailed",
    "rank {rank} has ended, and the others wait for it{said}",
    "a collective waits for every rank, for as long as its time-out says (HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT)",
    "mend what that rank says; read {log}, and the log of that rank if it has one of its own",
)
WINDOW_TOO_LONG = Trouble(
    "window-too-long",
    "RunFailed",
    "rank {rank} made {made} steps of {phase}, and the window needs {needed}",
    "steps before the window count too: --warmup-steps outside the profiler and one that the profiler itself needs",
    "let the program run longer, or ask for fewer steps (--steps, --warmup-steps)",
)
NOT_READY = Trouble(
    "server-not-ready",
    "RunFailed",
    "the server did not answer {path} with 200 within {seconds:g} s: {said}",
    "the model takes longer to load, or the command listens on another port than the plan asks",
    "give it more time (`ready_timeout`), see that `command` names the port, and read {log}",
)
NOT_SWITCHED = Trouble(
    "server-refused",
    "RunFailed",
    "the server answered {path} with {said}",
    "404 on /start_profile: it was started without its profiler, or is another release than the plan takes it for",
    "read {log}",
)
SERVER_ENDED = Trouble(
    "server-ended",
    "RunFailed",
    "the server ended during {doing} ({ending}){said}",
    "it crashed: out of memory, a request that it does not take, or its profiler",
    "read {log}",
)

# --- a job that runs already ---

JOB_NOT_THERE = Trouble(
    "job-not-there",
    "EnvironmentUnfit",
    "no process that can be seen from here looks at {directory}",
    "the job has ended, runs on another host or in a container, or was started without PROF_CONFIG_PATH; torch_npu "
    "reads that variable when it is imported",
    "start the job with PROF_CONFIG_PATH={directory}; for one in a container name that very one in the inventory",
)
NO_SUCH_RANK = Trouble(
    "no-such-rank",
    "UsageError",
    "the job has no rank {rank} on this host: it has {ranks}",
    "ranks are asked for by --devices (as many as the job has) and --ranks",
    "ask for a rank that the job has here",
)
JOB_NOT_ASKED = Trouble(
    "job-not-asked",
    "EnvironmentUnfit",
    "{path} cannot be changed: {why}",
    "the job belongs to another account, or its directory is read-only",
    "log in as the account that started the job (`user` in the inventory)",
)
JOB_BUSY = Trouble(
    "job-busy",
    "RunFailed",
    "another run has just asked the job that looks at {directory}",
    "one request at a time: a second one would take the place of the first",
    "collect when the other run is over",
)
JOB_ENDED = Trouble(
    "job-ended",
    "RunFailed",
    "rank {rank} of the job (pid {pid}) ended before it had recorded its window",
    "the training came to its end, or crashed; what it had recorded by then is not whole",
    "collect from a job that goes on for longer",
)
JOB_DEAF = Trouble(
    "job-deaf",
    "RunFailed",
    "rank {rank} of the job (pid {pid}) took no notice within {seconds:g} s",
    "its steps are not those of an optimizer of torch, which alone counts; or shared memory of an earlier job that was "
    "killed keeps it from looking (/dev/shm/DynamicProfileNpuShm<date and hour>)",
    "give it longer (`begin_timeout`), see its logs in {directory}/log, or start the program anew by another route",
)
JOB_NOT_STEPPING = Trouble(
    "job-not-stepping",
    "RunFailed",
    "the job has read the file, and rank {rank} (pid {pid}) has begun no step within {seconds:g} s",
    "a step takes longer than that, the job evaluates or saves, or it waits for another rank",
    "give it longer (`begin_timeout`), and see its logs in {directory}/log",
)

# --- its profile, besides the checks in `validate` ---

DEVICE_SHARED = Trouble(
    "device-shared",
    "ProfileInvalid",
    "the device was shared during the run: {who}",
    "somebody took the device between our look and the end of the window: the figures are not those of the model alone",
    "collect again when the other has left, or accept it with --allow-shared",
)
NOT_PARSED = Trouble(
    "parsed",
    "ProfileInvalid",
    "{problem}{again}",
    "the profiler's parser refused, failed or died, and so it did when it was started again, in place and on the "
    "host's other file systems; the message is its first complaint",
    "see the end of the host's log",
    (
        "... (parsed anew in vain: in place, /dev/shm)",
        "the parser was killed (SIGKILL): most likely the host ran out of memory",
        "the profiler was not stopped",
    ),
)

# --- its directory and its processes ---

REMOVED = Trouble(
    "run-removed",
    "RunFailed",
    "the directory of the run was removed while it was going on: {path}",
    "a model that tidies up, a clean-up job of the host, somebody else who uses the same `workdir`",
    "see that neither the model nor a clean-up job on the host removes it, and run it again",
)
FILE_GONE = Trouble(
    "file-gone",
    "RunFailed",
    "{path} is not there any more",
    "a model that tidies up more than is its own",
    "see that the model removes nothing below {run}",
)
NOT_READ_BACK = Trouble(
    "not-read-back",
    "StorageError",
    "what was packed cannot be read back: {what}",
    "the disk, or the network below it, does not give back what was written to it",
    "do not trust the disk of {path}: name another directory with `workdir` in the inventory",
)
NOT_WRITTEN = Trouble(
    "host-disk-full",
    "StorageError",
    "cannot write on the host: {why} ({path})",
    "the disk is full or a quota is used up: what the profiler records needs several times its size when it is parsed",
    FREE_SPACE,
    ("a disk of the host is full: ...: No space left on device",),
)
SUPERVISOR_DIED = Trouble(
    "supervisor-died",
    "RunFailed",
    "the supervisor of the run died",
    "it was killed: by somebody, by the kernel for want of memory, by a boot of the host or of its container. The "
    "kernel ended the model then",
    "read {log}",
)
GOES_ON = Trouble(
    "goes-on-elsewhere",
    "RunFailed",
    "run {run} was asked to stop and goes on, on another host or in a container that shares this directory",
    "its supervisor cannot be seen from here, and has not read what it was asked",
    "stop it there",
)
FETCHED = Trouble(
    "fetched-by-another",
    "RunFailed",
    "there is no run {run} any more: somebody else has fetched its result, or removed it",
    "two follow the same run; the first that has the result lets the host remove it",
    "ask who works on this host",
)
