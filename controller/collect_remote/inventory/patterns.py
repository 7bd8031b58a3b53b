"""Which hosts a pattern like `a2:&rack3:!ascend07` means, as Ansible reads it. Pure."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from fnmatch import translate

from ..errors import UsageError
from .words import suggestion

Groups = Mapping[str, Sequence[str]]

_SEPARATOR = re.compile(r"[,:](?![^\[]*\])")  # not inside of brackets
_BRACKETS = re.compile(r"(?:[^\[\]]|\[[^\]]*\])*")
_SUBSCRIPT = re.compile(
    r"(?P<base>.+)\[(?:(?P<index>-?[0-9]{1,9})|(?P<first>[0-9]{1,9})(?P<sign>[:-])(?P<last>[0-9]{0,9}))\]"
)
_BUILT_IN = ("all", "ungrouped")  # only their own names mean them, so that `a*` is never every host
_QUOTES = "quote it for the shell, which has a use of its own for & ! ~ * and [ ]: --hosts 'a2:&rack3:!ascend07'"


def select(pattern: str, hosts: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """The hosts that `pattern` means, in the order of `hosts`. `groups` has all hosts of each group.

    Terms are separated by `,` or `:`. A term adds hosts, `&` keeps only its own, `!` takes its own away; in that order,
    however they are written, and beginning with all where nothing adds any. A term is the name of a host or group, a
    glob, a `~regular expression` that fits the beginning of a name, or one of these with the places of hosts in it:
    `a2[0]`, `a2[-1]`, `a2[0:3]`, the last one included. Raises UsageError when a term or the whole means no host.
    """
    terms = [(term[0] if term[0] in "&!" else "", term) for term in _terms(pattern)]
    found = {term: set(_matching(term[len(sign) :], hosts, groups)) for sign, term in terms}
    added = [found[term] for sign, term in terms if not sign]
    chosen = set[str]().union(*added) if added else set(hosts)
    for sign, term in terms:
        if sign == "&":
            chosen &= found[term]
    for sign, term in terms:
        if sign == "!":
            chosen -= found[term]
    if not chosen:
        told = ", ".join(f"{term} is {_counted(found[term])}" for _, term in terms)
        raise UsageError(f"the pattern {pattern!r} leaves no host: {told}", "see `collect-remote inventory`")
    return tuple(host for host in hosts if host in chosen)


def _terms(pattern: str) -> list[str]:
    if not _BRACKETS.fullmatch(pattern):
        raise UsageError(f"the pattern {pattern!r} has a bracket without its other one", "close it, as in a2[0:3]")
    terms = [term.strip() for term in _SEPARATOR.split(pattern)]
    if not all(term.lstrip("&!") for term in terms):
        raise UsageError(f"a part of the pattern {pattern!r} is empty", _QUOTES)
    return terms


def _matching(name: str, hosts: Sequence[str], groups: Groups) -> list[str]:
    """The hosts of one term without its sign: those of groups first, in the order of the groups."""
    if name in groups and name in hosts:
        raise UsageError(f"{name!r} is a group and a host", "give one of them another name in the inventory")
    if name in hosts:
        return [name]
    if name in groups:
        return list(groups[name])
    if name.startswith("~"):
        return _fitting(name, _expression(name), hosts, groups)
    found = _SUBSCRIPT.fullmatch(name)
    return _at(found, hosts, groups) if found else _fitting(name, re.compile(translate(name)), hosts, groups)


def _fitting(name: str, expression: re.Pattern[str], hosts: Sequence[str], groups: Groups) -> list[str]:
    """The hosts whose name, or the name of one of whose groups, fits."""
    matching = [group for group in groups if group not in _BUILT_IN and expression.match(group)]
    named = [host for host in hosts if expression.match(host)]
    if not matching and not named:
        raise UsageError(f"there is no host or group {name!r}", suggestion(name, [*groups, *hosts]))
    return list(dict.fromkeys([*(host for group in matching for host in groups[group]), *named]))


def _expression(name: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets in sets, which are none yet
            return re.compile(name[1:])
    except re.error as error:
        remedy = "mend it; outside of brackets `,` and `:` end it"
        raise UsageError(f"{name!r} is no regular expression: {error}", remedy) from error


def _at(found: re.Match[str], hosts: Sequence[str], groups: Groups) -> list[str]:
    """The hosts at some places of a term, counted from 0."""
    name, base = found.group(), found["base"]
    if found["sign"] == "-":
        raise UsageError(f"{name!r} has a dash between its places", f"write {base}[{found['first']}:{found['last']}]")
    try:
        among = _matching(base, hosts, groups)
    except UsageError as error:
        error.remedy = (
            f"numbers in brackets are places, {base}[0] is the first; names of hosts have none; {error.remedy}"
        )
        raise
    if found["index"]:
        place = int(found["index"])
        chosen = among[place:][:1] if place >= -len(among) else []
    else:
        chosen = among[int(found["first"]) : int(found["last"]) + 1 if found["last"] else None]
    if not chosen:
        raise UsageError(f"{name!r} is no host: {base} is {_counted(among)}", "count from 0; both ends are included")
    return chosen


def _counted(hosts: Collection[str]) -> str:
    return f"{len(hosts)} host{'' if len(hosts) == 1 else 's'}"
