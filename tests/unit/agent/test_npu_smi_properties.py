"""What holds for any state of a host in any layout, and for any damage to its table."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from collect_agent.npu import Device, NpuSmiError, interpret, judge
from collect_agent.npu.interpret import parse_info
from npu_smi_tables import A5, LAYOUTS, P310, Die, Layout, info

# the machine may be busy with other tests: no deadline for a single example
CALM = settings(deadline=None, max_examples=300)
COMM = st.text("abcXYZ09_.-/ ", max_size=15).map(str.strip) | st.text("ab|", max_size=15)
PROCESS = st.tuples(st.integers(1, 4_194_304), COMM, st.integers(0, 65536))


@st.composite
def dies(draw: st.DrawFn, layout: Layout) -> list[Die]:
    npus = draw(st.lists(st.integers(0, 33000), min_size=1, max_size=4, unique=True))
    chips = draw(st.integers(1, 2)) if layout.chips else 1
    state = []
    for npu in npus:
        for chip in range(chips):
            total = draw(st.sampled_from([21527, 32768, 65536, 131072]))
            state.append(
                Die(
                    npu,
                    chip,
                    second=len(state),
                    name=draw(st.sampled_from(["910B3", "Ascend910", "310P3", "310Pvir04", ""])),
                    health=draw(st.sampled_from(["OK", "OK", "OK", "Warning", "Alarm", "Critical", "UNKNOWN"])),
                    power=draw(st.sampled_from(["NA", "-", "0.0", "178.5"])),
                    bus=draw(st.sampled_from(["NA", "0000:C1:00.0"])),
                    pages=draw(st.sampled_from([(0, 0), (15, 15), (16885, 16885)])),
                    util=draw(st.sampled_from([0, 0, 0, 12, 100])),
                    ddr=(1204, 15170) if layout.key.startswith("910A") else (0, 0),
                    memory=(draw(st.integers(0, total)), total),
                    processes=tuple(draw(st.lists(PROCESS, max_size=2))) if layout.process else (),
                )
            )
    return state


def devices(text: str, mapping: str = "", status: int | None = 0) -> tuple[Device, ...]:
    return interpret({"npu_smi": "npu-smi", "in_container": False, "info": [status, text], "mapping": [0, mapping]})


LAYOUT_AND_DIES = st.sampled_from(LAYOUTS).flatmap(lambda layout: st.tuples(st.just(layout), dies(layout)))


@CALM
@given(LAYOUT_AND_DIES)
def test_what_is_printed_is_read_back(drawn: tuple[Layout, list[Die]]) -> None:
    layout, state = drawn
    driver = "25.5.1" if layout.process else "22.0.4"
    report = parse_info(info(layout, state, driver=driver))
    read = [
        (d.npu, d.chip, d.name, d.health, d.utilisation_pct, d.memory_used_mb, d.memory_total_mb, d.bus_id)
        for d in report.devices
    ]
    assert read == [
        (
            die.npu,
            die.chip if layout.chips else None,
            die.name,
            die.health,
            die.util,
            *die.memory,
            None if die.bus == "NA" else die.bus,
        )
        for die in state
    ]
    assert [[(p.pid, p.name, p.memory_mb) for p in d.processes] for d in report.devices] == [
        list(die.processes) for die in state
    ]
    assert report.unreadable == () and not any(device.doubt for device in report.devices)


@st.composite
def blotted(draw: st.DrawFn, text: str) -> str:
    """`text` with a character made illegible (never into another figure), a line doubled, or a foreign line
    in it.
    """
    lines = text.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["blot", "double", "splice"]))
    if how == "blot":
        place = draw(st.integers(0, len(lines[at]) - 1))
        lines[at] = lines[at][:place] + draw(st.sampled_from("#~?+|x")) + lines[at][place + 1 :]
    else:
        lines.insert(at, lines[at] if how == "double" else "Connection reset | by peer")
    return "\n".join(lines)


@st.composite
def shortened(draw: st.DrawFn, text: str) -> str:
    """`text` cut at any place, or with lines lost."""
    if draw(st.booleans()):
        return text[: draw(st.integers(0, len(text)))]
    lost = draw(st.sets(st.integers(0, len(text.splitlines()) - 1), max_size=3))
    return "\n".join(line for number, line in enumerate(text.splitlines()) if number not in lost)


def freed(text: str) -> set[tuple[int, int]]:
    """The (NPU, chip) of the devices that are judged free; none when the text is refused."""
    try:
        verdicts = judge(devices(text))
    except NpuSmiError:
        return set()
    return {(v.device.npu, v.device.chip or 0) for v in verdicts if v.free}


def quiet(state: list[Die]) -> set[tuple[int, int]]:
    """The devices that are free by everything but their processes."""
    return {
        (die.npu, die.chip)
        for die in state
        if die.health == "OK" and die.util == 0 and int(die.memory[0]) <= int(die.memory[1]) * 0.1
    }


@CALM
@given(st.data())
def test_a_blot_frees_no_device(data: st.DataObject) -> None:
    layout, state = data.draw(LAYOUT_AND_DIES)
    busy = {(die.npu, die.chip) for die in state if die.processes}
    assert freed(data.draw(blotted(info(layout, state)))) <= quiet(state) - busy


@CALM
@given(st.data())
def test_lost_text_frees_no_device_that_its_own_lines_do_not(data: st.DataObject) -> None:
    layout, state = data.draw(LAYOUT_AND_DIES)
    assert freed(data.draw(shortened(info(layout, state)))) <= quiet(state)


@CALM
@given(st.text(), st.text(), st.one_of(st.none(), st.integers(0, 255)))
def test_any_text_gives_devices_or_an_error_of_ours(text: str, mapping: str, status: int | None) -> None:
    with suppress(NpuSmiError):
        devices(text, mapping, status=status)


@CALM
@given(st.lists(st.sampled_from([*info(A5, [Die(0)]).splitlines(), *info(P310, [Die(1)]).splitlines()])))
def test_lines_in_any_order_give_devices_or_an_error_of_ours(lines: list[str]) -> None:
    with suppress(NpuSmiError):
        devices("\n".join(lines))
