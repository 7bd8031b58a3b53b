"""What holds for any state of a host in any layout, and for any damage to its table."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from collect_agent.npu.device import Device
from collect_agent.npu.failures import NpuSmiError
from collect_agent.npu.interpret import combine, interpret, parse_info
from collect_agent.npu.judge import judge
from collect_agent.npu.numbering import parse_mapping
from collect_agent.npu.single import parse_list, parse_processes, parse_usages
from npu_smi_tables import A2, A5, LAYOUTS, P310, Die, Layout, device_mapping, info, proc_mem, usages

try:
    MANY = settings.get_profile("many")
except InvalidArgument:  # without conftest.py, on the older Pythons, fewer have to do
    MANY = settings(deadline=None, max_examples=50)

COMM = st.text("abcXYZ09_.-/ ", max_size=15).map(str.strip) | st.text("ab|", max_size=15)
TOTALS = (21527, 32768, 65536, 131072)
NPUS = (0, 1, 4, 7, 96, 2144, 32768, 32896)


LINES = "".join(
    (info(A5, [Die(0)]), info(P310, [Die(1)]), usages(A2, 3, [Die(3)], 1), proc_mem(A2, 3, [Die(3)]))
).splitlines()


@st.composite
def states(draw: st.DrawFn) -> tuple[Layout, list[Die]]:
    """A host of one layout: any ids, names, health, memory and processes, in the order of its table."""
    random = draw(st.randoms(use_true_random=False))
    layout = random.choice(LAYOUTS)
    state: list[Die] = []
    for npu in random.sample(NPUS, random.randint(1, 4)):
        for chip in range(random.randint(1, 2) if layout.chips else 1):
            total = random.choice(TOTALS)
            state.append(
                Die(
                    npu,
                    chip,
                    second=len(state),
                    name=random.choice(["910B3", "Ascend910", "310P3", "310Pvir04", ""]),
                    health=random.choice(["OK", "OK", "OK", "Warning", "Alarm", "Critical", "UNKNOWN"]),
                    power=random.choice(["NA", "-", "0.0", "178.5"]),
                    bus=random.choice(["NA", "0000:C1:00.0"]),
                    pages=random.choice([(0, 0), (15, 15), (16885, 16885)]),
                    util=random.choice([0, 0, 0, 12, 100]),
                    ddr=(1204, 15170) if layout.key.startswith("910A") else (0, 0),
                    memory=(random.choice([0, 3391, total // 2, total]), total),
                    processes=tuple(
                        (random.randint(1, 4_194_304), random.choice(["python3.8", "a worker", "", "cat|tee"]), 102)
                        for _ in range(random.choice([0, 0, 1, 2]) if layout.process else 0)
                    ),
                )
            )
    return layout, state


def printed(layout: Layout, state: list[Die]) -> str:
    return info(layout, state, driver="25.5.1" if layout.process else "22.0.4")


def values(die: Die, layout: Layout) -> tuple[object, ...]:
    """What the table says of a device, without its processes."""
    return die.npu, die.chip if layout.chips else None, die.name, die.health, die.util, *die.memory


def read(device: Device) -> tuple[object, ...]:
    ids = (device.npu, device.chip, device.name)
    return *ids, device.health, device.utilisation_pct, device.memory_used_mb, device.memory_total_mb


@MANY
@given(states(), st.data())
def test_what_is_printed_is_read_back(drawn: tuple[Layout, list[Die]], data: st.DataObject) -> None:
    layout, state = drawn
    if layout.process:
        names = tuple((1 + number, name, 102) for number, name in enumerate(data.draw(st.lists(COMM, max_size=3))))
        state[0] = state[0]._replace(processes=names)
    report = parse_info(printed(layout, state))
    assert [read(device) for device in report.devices] == [values(die, layout) for die in state]
    assert [[(p.pid, p.name, p.memory_mb) for p in d.processes] for d in report.devices] == [
        list(die.processes) for die in state
    ]
    assert [device.bus_id or "NA" for device in report.devices] == [die.bus for die in state]
    assert report.unreadable == ()
    assert not any(device.doubt for device in report.devices)


def assert_no_wrong_value(text: str, layout: Layout, state: list[Die], *, rows_lost: bool = False) -> None:
    """What is read of a damaged table is what its lines say, or an error of ours."""
    try:
        report = parse_info(text)
    except NpuSmiError:
        return
    whole = {values(die, layout)[:2]: die for die in state}
    for device in report.devices:
        die = whole[device.npu, device.chip]
        assert read(device) == values(die, layout)
        assert device.bus_id in (None, die.bus)
        rows = {(process.pid, process.memory_mb) for process in device.processes}
        expected = {(pid, mb) for pid, _, mb in die.processes}
        assert rows <= expected
        assert rows == expected or device.doubt or "No running processes" not in text or rows_lost


def freed(text: str) -> set[tuple[int | None, int]]:
    """The (NPU, chip) of the devices that are judged free; none when the text is refused."""
    seen = {"npu_smi": "npu-smi", "in_container": False, "info": [0, text], "mapping": [0, ""]}
    try:
        verdicts = judge(interpret(seen))
    except NpuSmiError:
        return set()
    return {(v.device.npu, v.device.chip or 0) for v in verdicts if v.free}


def quiet(state: list[Die], *, with_processes: bool) -> set[tuple[int | None, int]]:
    """The devices that are free by everything but their processes, or by them too."""
    return {
        (die.npu, die.chip)
        for die in state
        if die.health == "OK" and die.util == 0 and int(die.memory[0]) <= int(die.memory[1]) * 0.1
        if not (die.processes and with_processes)
    }


@MANY
@given(states(), st.floats(0, 1), st.booleans())
def test_cut_at_any_place(drawn: tuple[Layout, list[Die]], at: float, head: bool) -> None:
    text = printed(*drawn)
    place = int(at * len(text))
    assert_no_wrong_value(text[place:] if head else text[:place], *drawn)
    # A table that has not said of anybody that there are no processes may end behind any NPU.
    speaks = "No running processes" in text[:place] or not drawn[0].process
    assert freed(text[:place]) <= quiet(drawn[1], with_processes=speaks)


@MANY
@given(states(), st.floats(0, 1, exclude_max=True), st.sampled_from("#~?+|*\0\n"))
def test_an_illegible_character_anywhere(drawn: tuple[Layout, list[Die]], at: float, blot: str) -> None:
    """Never another figure, letter or blank: that would be the table of another state."""
    text = printed(*drawn)
    place = int(at * len(text))
    damaged = text[:place] + blot + text[place + 1 :]
    assert_no_wrong_value(damaged, *drawn)
    assert freed(damaged) <= quiet(drawn[1], with_processes=True)


@MANY
@given(states(), st.floats(0, 1, exclude_max=True), st.sampled_from(["lost", "doubled", "spliced"]))
def test_a_line_lost_doubled_or_spliced(drawn: tuple[Layout, list[Die]], at: float, how: str) -> None:
    lines = printed(*drawn).splitlines()
    place = int(at * len(lines))
    row_of_a_process = how == "lost" and not lines[place].startswith("+")
    lines[place : place + 1] = {
        "lost": [],
        "doubled": [lines[place]] * 2,
        "spliced": [lines[place], "Connection reset | by peer"],
    }[how]
    assert_no_wrong_value("\n".join(lines), *drawn, rows_lost=row_of_a_process)
    assert freed("\n".join(lines)) <= quiet(drawn[1], with_processes=not row_of_a_process)


@MANY
@given(states(), st.floats(0, 1), st.booleans())
def test_a_map_cut_at_any_place_gives_no_wrong_id(drawn: tuple[Layout, list[Die]], at: float, head: bool) -> None:
    layout, state = drawn
    logic = [100 + 7 * number for number in range(len(state))]
    text = device_mapping(layout, state, logic, logic)
    place = int(at * len(text))
    real = {(die.npu, die.chip if layout.chips else 0): logic[at] for at, die in enumerate(state)}
    for chip in parse_mapping(text[place:] if head else text[:place]):
        assert chip.logic == (real[chip.npu, chip.chip] if layout.chips else None)


@MANY
@given(
    st.text() | st.lists(st.sampled_from(LINES)).map("\n".join),
    st.text(),
    st.none() | st.integers(0, 255),
)
def test_any_text_gives_devices_or_an_error_of_ours(text: str, mapping: str, status: int | None) -> None:
    with suppress(NpuSmiError):
        interpret({"npu_smi": "npu-smi", "in_container": False, "info": [status, text], "mapping": [0, mapping]})
    combine(parse_usages(text), parse_processes(text))
    parse_list(text)
