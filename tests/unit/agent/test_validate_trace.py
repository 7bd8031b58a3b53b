"""The trace decoder: it accepts what json accepts, at any buffer size, and nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect_agent.trace import cores, jsonlist, reading
from collect_agent.trace.reading import read
from collect_agent.trace.stream import Damage

words = st.text() | st.sampled_from(["}, {", "},{", "]", '"}', "\\"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)
lists = st.lists(values) | st.lists(st.dictionaries(words, values, max_size=3), min_size=1)
chunks = st.integers(1, 40) | st.just(1000)


def raw(text: str | bytes) -> io.RawIOBase:
    data = text if isinstance(text, bytes) else text.encode()

    class Bytes(io.RawIOBase):
        """Raw, as files and archive members are: reads may come back short."""

        def __init__(self) -> None:
            self.left = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self.left.readinto(memoryview(buffer)[:7])

    return Bytes()


def events(source: io.RawIOBase, chunk: int) -> Iterator[Any]:
    for batch in jsonlist.batches(source, chunk):
        assert batch  # or a list without end would be a loop without end
        yield from batch


@settings(deadline=None)
@given(lists, chunks, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_list_is_decoded_as_json_does(items: list[Any], chunk: int, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    text.encode("utf-8", "surrogatepass")  # what follows needs real text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(items, indent=indent)
    assert list(events(raw(text), chunk)) == items


@given(lists, chunks, st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_list_is_refused_exactly_when_json_refuses_it(items: list[Any], chunk: int, data: Any) -> None:
    text = json.dumps(items)
    at = data.draw(st.integers(0, len(text)))
    kind = data.draw(st.sampled_from(["cut", "drop", "insert"]))
    text = {
        "cut": text[:at],
        "drop": text[:at] + text[at + 1 :],
        "insert": text[:at] + data.draw(st.sampled_from(',:[]{}"0\0 e')) + text[at:],
    }[kind]
    try:
        wanted = json.loads(text)
        good = isinstance(wanted, list)
    except ValueError:
        good = False
    if good:
        assert list(events(raw(text), chunk)) == wanted
    else:
        with pytest.raises(Damage):
            list(events(raw(text), chunk))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("{}", "not a JSON list"),
        ('[{"name": "a"}', "truncated (unexpected end at byte 14)"),
        ('[{"name": "a"},', "truncated (unexpected end at byte 15)"),
        ('[{"name": "ab', "truncated (unexpected end at byte 13)"),
        ('[{"name": "é"}', "truncated (unexpected end at byte 15)"),
        ('[{"name": "a"}]\0\0\0', "data behind its closing bracket, at byte 15"),
        ('[{"name": "a"} {"name": "b"}]', "not JSON at byte 15"),
        ('[{"name": "a" "ph": "X", "pid": 123456789, "tid": 1}]', "not JSON at byte 14"),
        (b'[{"name": "\xff"}]', "not UTF-8"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "holds int where an event belongs"),
        ('[{"ph": "X", "name": "mm", "ts": "1.5", "pid": 1}]', "slice without time or process"),
    ],
)
def test_damage_is_named_with_its_place(text: str | bytes, what: str) -> None:
    with pytest.raises(Damage, match=what.replace("(", r"\(").replace(")", r"\)")):
        read(raw(text))


def test_a_long_event_is_not_decoded_anew_for_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def decode(text: str, at: int) -> tuple[Any, int]:
        tries.append(len(text))
        return json.JSONDecoder().raw_decode(text, at)

    monkeypatch.setattr(jsonlist._Buffer, "_decode", staticmethod(decode))
    long = json.dumps([{"args": {"Call stack": "x" * 1_000_000}}, {"ph": "i"}])
    assert len(list(events(raw(long), 64))) == 2
    assert len(tries) < 25  # twice the text each time, not 64 characters more


def test_slices_are_counted_by_process_steps_by_number_and_compiles_by_duration() -> None:
    def slice_(name: str, pid: int, ts: str, dur: float) -> dict[str, Any]:
        return {"ph": "X", "name": name, "pid": pid, "tid": 0, "ts": ts, "dur": dur}

    found = read(
        raw(
            json.dumps(
                [
                    slice_("ProfilerStep#7", 1, "1736408883000000.125", 500.0),
                    slice_("AscendCL@aclopCompileAndExecute", 2, "1736408883000010.000", 80.5),
                    slice_("AscendCL@opCompile", 2, "1736408883000020.000", 61_000.0),
                    slice_("MatMulV2", 3, "1736408883000200.000", 20.0),
                    {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "Ascend Hardware"}},
                    slice_("Add", 3, "1736408883000100.000", 10.0),
                ]
            )
        )
    )
    assert (found.events, found.device_slices) == (6, 2)
    assert found.device_span == (1736408883000100.0, 1736408883000220.0)
    assert found.steps == {7: (1736408883000000.125, 500.0)}
    assert (found.compiles, found.long_compiles, found.longest_compile_us) == (2, 1, 61_000.0)


def slices(count: int) -> list[dict[str, Any]]:
    """Of three processes, on which everything that is counted occurs."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((1, "Python"), (2, "CANN"), (3, "Ascend Hardware"))
    ]
    for number in range(count):
        name = [f"ProfilerStep#{number}", "AscendCL@opCompile", "MatMulV2"][number % 3]
        event = {"ph": "X", "name": name, "pid": 1 + number % 3, "tid": 0}
        found.append({**event, "ts": f"{10**15 + 100 * number}.125", "dur": number * 75.5})
    return found


def by_helpers(text: bytes) -> Any:
    return read(raw(text), size=reading.WORTH_HELPERS)


def plain(found: Any) -> Any:
    return {**found._asdict(), "starts": sorted(found.starts._hashes)}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PART", 3000)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("joint", [", ", ",", " ,\n"])
@pytest.mark.parametrize("before", ["", "\ufeff", " \n"])
def test_the_helpers_find_what_one_process_finds(joint: str, before: str) -> None:
    text = (before + "[" + joint.join(map(json.dumps, slices(500))) + "]\n").encode()
    alone = read(raw(text))
    assert alone.device_slices and alone.steps and alone.long_compiles and alone.starts
    assert plain(by_helpers(text)) == plain(alone)


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_was_cut_in_an_inner_list_or_in_a_string_is_decoded_again() -> None:
    inner = {"ph": "i", "args": {"list": [{"a": 1}] * 400, "text": "}, {" * 800 + '}, {\\"x'}}
    text = json.dumps([*slices(100), inner, *slices(100)]).encode()
    assert plain(by_helpers(text)) == plain(read(raw(text)))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("at", [0.0, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("damage", [b"", b"\0", b"\xff", b"}, ", b'}, {"ph": "X"}, {"a'])
def test_the_helpers_say_what_one_process_says_of_damage(at: float, damage: bytes) -> None:
    text = json.dumps(slices(300)).encode()
    place = int(at * len(text))
    text = text[:place] + damage + (text[place:] if damage else b"")
    with pytest.raises(Damage) as alone:
        read(raw(text))
    with pytest.raises(Damage) as together:
        by_helpers(text)
    if "UTF-8" in str(alone.value):  # which says only what was read before
        assert "UTF-8" in str(together.value)
    else:
        assert str(together.value) == str(alone.value)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false"])
def test_without_helpers_it_is_decoded_all_the_same(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.sys, "executable", program)
    text = json.dumps(slices(100)).encode()
    assert plain(by_helpers(text)) == plain(read(raw(text)))
