"""Which hosts a pattern means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.errors import UsageError
from collect_remote.inventory import select

HOSTS = ("ascend01", "ascend02", "ascend03", "a3-a", "a3-b", "other")
GROUPS = {
    "all": HOSTS,
    "ungrouped": ("other",),
    "a2": ("ascend03", "ascend01", "ascend02"),
    "a3": ("a3-a", "a3-b"),
    "rack3": ("ascend02", "ascend03", "a3-b"),
    "empty": (),
}


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("all", "ascend01 ascend02 ascend03 a3-a a3-b other"),
        ("*", "ascend01 ascend02 ascend03 a3-a a3-b other"),
        ("other", "other"),
        ("a2", "ascend01 ascend02 ascend03"),
        ("a3,ascend01", "ascend01 a3-a a3-b"),
        ("a3 : ascend01", "ascend01 a3-a a3-b"),
        ("a2:&rack3", "ascend02 ascend03"),
        ("a2:&rack3:!ascend03", "ascend02"),
        ("!ascend03:&rack3:a2", "ascend02"),  # whatever the order
        ("&rack3", "ascend02 ascend03 a3-b"),
        ("!a2", "a3-a a3-b other"),
        ("!a2,!other,&rack3", "a3-b"),
        ("a2:empty", "ascend01 ascend02 ascend03"),
        ("ascend0?", "ascend01 ascend02 ascend03"),
        ("*[13]*", "ascend01 ascend03 a3-a a3-b ascend02"),
        ("ascend0[!2]*", "ascend01 ascend03"),
        ("a3*", "a3-a a3-b"),
        ("a*", "ascend01 ascend02 ascend03 a3-a a3-b"),  # and not the group `all`
        ("~rack", "ascend02 ascend03 a3-b"),
        ("~a(3-a|scend01)", "ascend01 a3-a"),
        ("~.*[0-9]$", "ascend01 ascend02 ascend03 a3-a a3-b"),  # the groups a2, a3 and rack3 too
        ("ungrouped", "other"),
        ("~[[a]3-a", "a3-a"),
        ("a2[0]", "ascend03"),  # the order of the group
        ("a2[-1]", "ascend02"),
        ("a2[0:1]", "ascend01 ascend03"),
        ("a2[1:]", "ascend01 ascend02"),
        ("a2[1:99]", "ascend01 ascend02"),
        ("a?[2:3]", "ascend02 a3-a"),
        ("a2[0:1]:a3[0]:!ascend01", "ascend03 a3-a"),
        ("a2[0:1],a3[0]", "ascend01 ascend03 a3-a"),
    ],
)
def test_patterns(pattern: str, hosts: str) -> None:
    chosen = select(pattern, HOSTS, GROUPS)
    assert set(chosen) == set(hosts.split())
    assert list(chosen) == [host for host in HOSTS if host in chosen]


@pytest.mark.parametrize(
    ("pattern", "message", "remedy"),
    [
        ("ascned01", "there is no host or group 'ascned01'", "did you mean 'ascend01'?"),
        ("a2:&rack33", "no host or group 'rack33'", "did you mean 'rack3'?"),
        ("a2:!nobody", "no host or group 'nobody'", "known: "),
        ("b*", "no host or group 'b*'", "known: "),
        ("un*", "no host or group 'un*'", "known: "),  # the group is `ungrouped` by its name alone
        ("~^b", "no host or group '~^b'", "known: "),
        ("~(", "'~(' is no regular expression", "mend it"),
        ("a2:&a3", "leaves no host: a2 is 3 hosts, &a3 is 2 hosts", "collect-remote inventory"),
        ("other:!other", "leaves no host: other is 1 host, !other is 1 host", "collect-remote inventory"),
        ("empty", "leaves no host: empty is 0 hosts", "collect-remote inventory"),
        ("", "a part of the pattern '' is empty", "quote it"),
        ("a2:", "a part of the pattern 'a2:' is empty", "quote it"),  # what a shell leaves of a2:&rack3
        ("a2,&", "is empty", "quote it"),
        ("a2[0", "a bracket without its other one", "a2[0:3]"),
        ("ascend[01:03]", "no host or group 'ascend'", "numbers in brackets are places"),
        ("a2[3]", "'a2[3]' is no host: a2 is 3 hosts", "count from 0"),
        ("a2[-4]", "'a2[-4]' is no host", "count from 0"),
        ("a2[2:1]", "'a2[2:1]' is no host", "count from 0"),
        ("a2[" + "9" * 5000 + "]", "no host or group", "known: "),
        ("a2[0-1]", "has a dash", "write a2[0:1]"),
        ("!&a2", "no host or group '&a2'", "did you mean 'a2'?"),
    ],
)
def test_a_pattern_that_means_nothing(pattern: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        select(pattern, HOSTS, GROUPS)
    assert message in raised.value.message and remedy in raised.value.remedy
    assert raised.value.exit_code == 2


def test_a_name_of_two_things() -> None:
    with pytest.raises(UsageError, match="'x' is a group and a host"):
        select("!x", ("x", "y"), {"all": ("x", "y"), "x": ("y",)})


@given(st.text("a23*?[]!&~:,.-()\\0 lr", max_size=12))
def test_any_text_is_a_pattern_or_an_error_of_ours(pattern: str) -> None:
    try:
        chosen = select(pattern, HOSTS, GROUPS)
    except UsageError as error:
        assert error.message and error.remedy
    else:
        assert chosen and set(chosen) <= set(HOSTS)
