"""The command lines that the program of the simulated container engine understands, and how it refuses others."""

from __future__ import annotations

# Of each command: its usage, how many words it needs, its options by letter: the long name, and whether it has a value.
COMMANDS = {
    "exec": (
        "exec [OPTIONS] CONTAINER COMMAND [ARG...]",
        2,
        {"i": ("interactive", False), "t": ("tty", False), "d": ("detach", False), "u": ("user", True),
         "w": ("workdir", True), "e": ("env", True)},
    ),
    "inspect": (
        "inspect [OPTIONS] NAME|ID [NAME|ID...]",
        1,
        {"f": ("format", True), "s": ("size", False), "type": ("type", True)},
    ),
    "ps": (
        "ps [OPTIONS]",
        0,
        {"a": ("all", False), "q": ("quiet", False), "no-trunc": ("no-trunc", False), "f": ("filter", True),
         "format": ("format", True)},
    ),
    "start": ("start [OPTIONS] CONTAINER [CONTAINER...]", 1, {}),
    "stop": ("stop [OPTIONS] CONTAINER [CONTAINER...]", 1, {"t": ("time", True), "s": ("signal", True)}),
}  # fmt: skip
MANY = ("e", "f")  # options that can be given several times; that of `inspect` cannot


class Refused(Exception):
    """What the engine answers instead; `status` is the exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


class Usage(Refused):
    """A command line that is not understood."""

    def __init__(self, program: str, command: str, problem: str, status: int, see: str) -> None:
        usage = "Usage:  %s %s" % (program, COMMANDS[command][0])
        super().__init__(
            "%s\n\n%s\n\n%s '%s %s --help' for more information" % (problem, usage, see, program, command), status
        )


def command(program: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The command and what follows it; ``container exec`` is ``exec``, and ``container ls`` is ``ps``."""
    words = arguments[1:] if arguments[:1] == ["container"] else arguments
    name = {"ls": "ps"}.get(words[0], words[0]) if words else ""
    if name not in COMMANDS:
        known = "%s: unknown command: %s %s\n\nRun '%s --help' for more information"
        raise Refused(known % (program, program, " ".join(arguments), program))
    return name, words[1:]


def parse(program: str, command: str, arguments: list[str]) -> tuple[dict, list[str]]:
    """({letter: value, True, or a list of values}, words).  After the first word of ``exec`` all is its command."""
    known = COMMANDS[command][2]
    names = {**{letter: letter for letter in known}, **{names[0]: letter for letter, names in known.items()}}
    options: dict = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            words.append(word)
            if command == "exec":
                words += rest
                break
            continue
        if word == "--":
            words += rest
            break
        for name, value in _split(word, known):
            letter = names.get(name)
            if letter is None:
                what = "flag: --%s" % name if word.startswith("--") else "shorthand flag: '%s' in %s" % (name, word)
                raise Usage(program, command, "unknown " + what, 125, "Run")
            if not known[letter][1]:
                options[letter] = True
                continue
            if value is None:
                if not rest:
                    raise Usage(program, command, "flag needs an argument: %s" % word, 125, "Run")
                value = rest.pop(0)
            if letter in MANY and command != "inspect":
                options.setdefault(letter, []).append(value)
            else:
                options[letter] = value
    least = COMMANDS[command][1]
    if len(words) < least:
        problem = "%s: '%s %s' requires at least %d argument%s" % (program, program, command, least, "s" * (least > 1))
        raise Usage(program, command, problem, 1, "See")
    return options, words


def _split(word: str, known: dict) -> list[tuple[str, str | None]]:
    """The options in one word: ``--name``, ``--name=value``, ``-it``, ``-uroot``."""
    if word.startswith("--"):
        name, given, value = word[2:].partition("=")
        return [(name, value if given else None)]
    found: list[tuple[str, str | None]] = []
    for at, letter in enumerate(word[1:], 2):
        if letter in known and known[letter][1]:
            return [*found, (letter, word[at:].lstrip("=") or None)]
        found.append((letter, None))
    return found
