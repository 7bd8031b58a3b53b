"""From a login shell that is not ours to a bash that is: how a script gets there whole, and why it did not.

sshd hands a command to the account's login shell, which may be any, and which reads the account's rc files first. These
may print, ask, read the input, change the shell or end it. So the command replaces that shell by a bash that inherits
nothing of it, and this bash runs a script only when its input still holds all of it: what an rc file took from the
input, it took from spare lines; and if it took more, nothing of ours runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collect_agent.ending import ending
from collect_agent.events import MARK

from ..errors import CollectError, EnvironmentUnfit, LoginHangs, Trouble

BEGIN_S = 20.0  # for the login scripts; nothing of ours runs before they are over
BEGUN = MARK + "begun"
_STARTED = MARK + "bash"
_NO_BASH = re.compile(r"not found: bash$|\bbash: (command )?not found|unknown command: bash", re.IGNORECASE)
_SPARE_LINES = 64
_FIRST_LINE = "# collect-remote: the script begins"
_LAST_LINE = "# collect-remote: the script ends"

TAKEN = Trouble(
    "login-scripts-take-input",
    LoginHangs,
    "the login scripts of {login} take the input that is for the command",
    "an rc file reads all of its input, which is the script that is to run; a question or two with `read` does no harm",
    "look for `read`, `cat` and `exec <` in its rc files; do that on a terminal alone: [ -t 0 ]",
)
HANGS = Trouble(
    "login-hangs",
    LoginHangs,
    "the login scripts of {login} are not over after {seconds:g} s: they wait for input, or hang{printed}",
    "something in .bashrc, .cshrc, .zshenv or config.fish waits: for a disk, a name service, a person",
    "see where `ssh {login} true` hangs; do that on a terminal alone: [ -t 0 ]",
)
RESTRICTED = Trouble(
    "login-shell-restricted",
    EnvironmentUnfit,
    "the login shell of {login} is restricted: {said}",
    "every login shell will do (sh, bash, zsh, csh, fish), but not one that may not start another",
    "have the account given a full shell, or use another account",
)
NO_BASH = Trouble(
    "no-bash",
    EnvironmentUnfit,
    "there is no bash on the PATH of {login}: {said}",
    "whatever the login shell is, the scripts are for bash",
    "install bash, or see that the login scripts leave it on the PATH",
)
KILLED = Trouble(
    "login-killed",
    EnvironmentUnfit,
    "the login of {login} was ended by a signal without a word from the command{printed}",
    "an rc file calls `kill`, or a limit of the account ends its processes",
    "look for `kill` in its rc files, and for limits of the account; `ssh {login} true` ends the same way",
)
ENDED = Trouble(
    "login-ends",
    EnvironmentUnfit,
    "the login of {login} ended ({ending}) without a word from the command{printed}",
    "an rc file calls `exit`, or `exec` of something else, or the account has no ordinary shell",
    "look for `exit` or `exec` in its rc files, and at its login shell; `ssh {login} true` ends the same way",
)

# Inside single quotes none of this means anything to sh, csh, fish or zsh: no quote, no backslash, no exclamation mark.
# "bash" in quotes is no alias. -p: it takes no functions, no options and no BASH_ENV from the environment. One stream
# for output and errors keeps their order, and their lines whole. A TMOUT of the account would end a `read` that waits.
# head reads in blocks, not byte by byte as bash does.
COMMAND = f"""\
exec "bash" --norc --noprofile -p -c '\
exec 2>&1; unset TMOUT; echo; echo "{_STARTED}"; \
while IFS= read -r line; do case "$line" in "{_FIRST_LINE} "*) \
echo "{BEGUN}"; eval "$(head -c "${{line##* }}")"; exit;; \
esac; done; exit 1'"""
# A shell that an rc file put in place of the one with our command takes its commands from the input: the same one.
HEAD = ("\n" * _SPARE_LINES + f"{COMMAND} || exit\n").encode()


def stdin(script: str) -> bytes:
    """What `COMMAND` gets on its standard input to run `script` (bash), whose own input is what is sent after that.

    The script is the body of a function, which `return` leaves. When all of it is there, a line `BEGUN` is printed, and
    then it runs.
    """
    body = f"main() {{\nset +o posix\n{script}\n}}\nmain\n{_LAST_LINE}".encode()
    return HEAD + f"{_FIRST_LINE} {len(body)}\n".encode() + body


def not_begun(login: str, said: Sequence[str], status: int | None) -> CollectError:
    """Why there was no `BEGUN`.

    login    user@host
    said     lines that came in its place
    status   how the session ended; None: it goes on, and has for `BEGIN_S`; -1: without one, by a signal
    """
    words = [line for line in said if line and line not in (_STARTED, _LAST_LINE)]
    printed = f"; the last that was printed: {words[-1]}" if words else ""
    if _STARTED in said or _LAST_LINE in said:  # our bash waits in vain; or something prints what it should have got
        error = TAKEN(login=login)
        return error if status is None else EnvironmentUnfit(error.message, error.remedy, entry=error.entry)
    if status is None:
        return HANGS(login=login, seconds=BEGIN_S, printed=printed)
    if restricted := next((line for line in words if "restricted" in line), ""):
        return RESTRICTED(login=login, said=restricted)
    if missing := next(filter(_NO_BASH.search, words), ""):
        return NO_BASH(login=login, said=missing)
    if status == -1:
        return KILLED(login=login, printed=printed)
    return ENDED(login=login, ending=ending(status), printed=printed)
