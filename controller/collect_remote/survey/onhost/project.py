"""What a model's project on the host shows, for the choice of a route: bounded, read-only, nothing of it is run.

Asked for as JSON: `path` of the project, its `command`, `files` to read (patterns relative to the project), `words` to
look for, `distributions` whose versions count. Examples and documentation do not say what a program does: folders of
such names are passed over.
"""

import fnmatch
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional  # noqa: F401 - used in comments

    from .facts import which
    from .pythons import version

APART = set(
    ["docs", "doc", "tests", "test", "examples", "example", "node_modules", "site-packages", "__pycache__", "build"]
    + ["res", "logs", "wandb", "outputs", "ckpt", "checkpoints"]
)
MOST_FOLDERS, MOST_SOURCES, MOST_REACHED = 2000, 4000, 300
TEXT_BYTES, ALL_TEXT_BYTES, SEARCHED_BYTES = 200000, 1000000, 40000000
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+\(?([\w, \t]*)|import[ \t]+([\w., \t]+))", re.M)
SCRIPT = re.compile(r"[\w./-]+\.(?:py|sh)\b")


def content(path):
    # type: (str) -> str
    """Of a file; nothing of what is none, like a pipe on whose other end nobody writes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            there = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(TEXT_BYTES).decode("utf-8", "replace") if there else ""
    except (IOError, OSError):
        return ""


def once(names):
    # type: (Iterable[str]) -> List[str]
    found = []  # type: List[str]
    for name in names:
        if name not in found:
            found.append(name)
    return found


def sources(root):
    # type: (str) -> Iterator[str]
    """Python files and shell scripts below the project, relative to it."""
    for number, (folder, names, files) in enumerate(os.walk(root), 1):
        names[:] = sorted(name for name in names if name not in APART and not name.startswith("."))
        for name in sorted(files):
            if name.endswith((".py", ".sh")):
                yield os.path.relpath(os.path.join(folder, name), root)
        if number >= MOST_FOLDERS:
            return


def wanted(root, patterns):
    # type: (str, List[str]) -> Iterator[str]
    """Files that match one of the patterns, in which `*` stands for part of a name; one folder is listed for each."""
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        if "*" not in name:
            found = [name]
        elif os.path.isdir(os.path.join(root, folder)):
            found = fnmatch.filter(sorted(os.listdir(os.path.join(root, folder))), name)
        else:
            found = []
        for entry in found[:200]:
            path = os.path.normpath(os.path.join(folder, entry))
            if os.path.isfile(os.path.join(root, path)):
                yield path


def started(root, command):
    # type: (str, List[str]) -> List[str]
    """The user's own files that a command names: scripts, what scripts name in turn, the module of -m."""
    found = [word for word in command if word.endswith((".py", ".sh"))]
    for module in [command[at + 1] for at, word in enumerate(command[:-1]) if word == "-m"]:
        found += [module.replace(".", "/") + ending for ending in (".py", "/__main__.py")]
    for script in [name for name in found if name.endswith(".sh")]:
        said = SCRIPT.findall(content(os.path.join(root, script)))
        beside = os.path.dirname(script)
        found += said + [os.path.join(beside, name) for name in said]
    inside = [os.path.relpath(os.path.join(root, name), root) for name in found]
    return once(name for name in inside if os.path.isfile(os.path.join(root, name)))


def unreadable(root, command):
    # type: (str, List[str]) -> Optional[str]
    """The first script of the command that is there and cannot be read."""
    scripts = [word for word in command if word.endswith((".py", ".sh")) and os.path.isfile(os.path.join(root, word))]
    return next((script for script in scripts if not os.access(os.path.join(root, script), os.R_OK)), None)


def imported(path, text):
    # type: (str, str) -> Iterator[str]
    """The project's files that a Python file imports, as far as its text tells."""
    here = os.path.dirname(path)
    for module, names, plain in IMPORT.findall(text):
        modules = [part.split()[0] for part in plain.split(",") if part.split()] if plain else [module]
        for name in modules:
            dots = len(name) - len(name.lstrip("."))
            base = os.path.join(here, *[os.pardir] * (dots - 1)) if dots else ""
            parts = [part for part in name.lstrip(".").split(".") if part]
            inner = [parts + [word.split()[0]] for word in names.split(",") if word.split()]
            for place in [base] if dots else ["", here]:
                for chain in [parts] + inner:
                    for ending in (".py", "/__init__.py"):
                        yield os.path.normpath(os.path.join(place, *chain) + ending) if chain else ""


def reached(root, entries):
    # type: (str, List[str]) -> Dict[str, str]
    """The texts of the entries, and of all of the project that they import."""
    texts = {}  # type: Dict[str, str]
    left = list(entries)
    while left and len(texts) < MOST_REACHED:
        path = left.pop(0)
        if path in texts or path.startswith(os.pardir) or not os.path.isfile(os.path.join(root, path)):
            continue
        texts[path] = content(os.path.join(root, path))
        if path.endswith(".py"):
            left += [found for found in imported(path, texts[path]) if found and found not in texts]
    return texts


def hits(root, paths, words):
    # type: (str, List[str], List[str]) -> Dict[str, List[str]]
    """Which of the words is in which of the files."""
    found = dict((word, []) for word in words)  # type: Dict[str, List[str]]
    budget = SEARCHED_BYTES if words else 0
    for path in paths:
        text = content(os.path.join(root, path)) if budget > 0 else ""
        budget -= len(text)
        for word in words:
            if word in text and len(found[word]) < 20:
                found[word].append(path)
    return found


def project(asked):
    # type: (Dict[str, Any]) -> Dict[str, Any]
    root, command = os.path.expanduser(asked["path"]), asked["command"]
    problem = None  # type: Optional[str]
    if not os.path.isdir(root):
        problem = "is not there" if not os.path.exists(root) else "is no directory"
    elif not os.access(root, os.R_OK | os.X_OK):
        problem = "cannot be read"
    else:
        script = unreadable(root, command)
        problem = script and "has {}, which cannot be read".format(script)
    root = os.path.realpath(root)
    entries = [] if problem else started(root, command)
    of_entries = {} if problem else reached(root, entries)
    shown = [] if problem else once(entries + list(wanted(root, asked["files"])))
    texts = {}  # type: Dict[str, str]
    for path in shown:
        if sum(map(len, texts.values())) < ALL_TEXT_BYTES:
            texts[path] = of_entries.get(path) or content(os.path.join(root, path))
    paths = [path for path, _ in zip([] if problem else sources(root), range(MOST_SOURCES))]
    return {
        "path": root,
        "problem": problem,
        "program": which(os.path.join(root, command[0]) if "/" in command[0] else command[0]) if command else None,
        "entries": entries,
        "texts": texts,
        "reached": dict((p, [w for w in asked["words"] if w in text]) for p, text in sorted(of_entries.items())),
        "hits": hits(root, paths, asked["words"]),
        "versions": dict((name, version(name)) for name in asked["distributions"]),
    }
