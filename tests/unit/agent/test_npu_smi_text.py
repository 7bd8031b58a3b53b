"""npu-smi's tables in every layout, and what real ones do to a parser."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from collect_agent.npu.device import Device, Process
from collect_agent.npu.failures import (
    NpuSmiBoardTypeError,
    NpuSmiDriverError,
    NpuSmiError,
    NpuSmiFormatError,
    NpuSmiInUseError,
    NpuSmiLibraryError,
    NpuSmiMissingError,
    NpuSmiTimeoutError,
)
from collect_agent.npu.interpret import interpret, parse_info
from collect_agent.npu.numbering import Mapped, parse_mapping
from npu_smi_tables import A1, A2, A2_26, A3, A5, A5_25_6, LAYOUTS, P310, Die, Layout, info, mapping

NO_FILE = "cannot open shared object file: No such file or directory"
MAP = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")


def devices(text: str, mapping_text: str = "", in_container: bool = False) -> tuple[Device, ...]:
    return interpret(
        {"npu_smi": "npu-smi", "in_container": in_container, "info": [0, text], "mapping": [0, mapping_text]}
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.key)
def test_a_busy_and_an_idle_device_in_every_layout(layout: Layout) -> None:
    python = ((4711, "python3.9", 20480),)
    busy = Die(2, name="X1", second=4, util=37, memory=(23912, 65536), processes=python)
    idle = Die(5, name="X1", second=5, health="Warning", power="-", bus="NA")

    first, second = parse_info(info(layout, [busy, idle])).devices

    assert (first.npu, first.chip) == (2, 0 if layout.chips else None)
    assert (first.memory_used_mb, first.memory_total_mb, first.utilisation_pct) == (23912, 65536, 37)
    assert (first.power_w, first.bus_id, first.health) == (93.5, "0000:C1:00.0", "OK")
    assert first.processes == ((Process(4711, "python3.9", 20480),) if layout.process else ())
    assert (second.power_w, second.bus_id, second.health) == (None, None, "Warning")
    assert (second.memory_used_mb, second.processes) == (3391, ())


def test_versions_of_tool_and_driver_are_kept_as_text() -> None:
    report = parse_info(info(A2, [Die(0)], tool="25.0.rc1.2", driver="25.0.rc1.2.sph001"))
    assert (report.tool_version, report.driver_version) == ("25.0.rc1.2", "25.0.rc1.2.sph001")


@pytest.mark.parametrize("after", ["Version: 2", "Version: 24.1.0", "Version:", "npu-smi 24.1.0"])
def test_a_title_that_is_wrapped_tells_no_version(after: str) -> None:
    text = info(P310, [Die(0, name="310P3"), Die(1, name="310P3")], tool="24.1.0", driver="24.1.0")
    text = text.replace(after, after + "\n", 1).split("| NPU     Chip")[0]
    report = parse_info(text)
    assert (report.tool_version, report.driver_version) == (None, None)
    assert all(device.doubt for device in report.devices), "it may be a version that lists processes"


def test_the_memory_that_matters_is_the_last_pair_of_the_second_line() -> None:
    # 910A has both: DDR in real use, and an almost empty HBM; its first line ends in a pair of pages
    report = parse_info(info(A1, [Die(0, pages=(15, 15), ddr=(2412, 15665), memory=(4, 32768))]))
    assert (report.devices[0].memory_used_mb, report.devices[0].memory_total_mb) == (4, 32768)


def test_columns_go_by_their_headings_so_an_unknown_one_does_no_harm() -> None:
    text = info(A2, [Die(0, util=7)])
    text = text.replace("| AICore(%)   Memory", "| ECC  AICore(%)   Memory").replace("| 7  ", "| 99   7  ")
    assert parse_info(text).devices[0].utilisation_pct == 7


def test_an_unknown_column_of_used_and_total_is_not_understood() -> None:
    # it may be the memory that matters, as HBM is beside DDR
    with pytest.raises(NpuSmiFormatError):
        parse_info(info(A1, [Die(0, ddr=(1204, 15170))]).replace("HBM-Usage", "HBM3-Usage"))


def test_ids_are_neither_dense_nor_small() -> None:
    dies = [Die(npu, chip, second) for second, (npu, chip) in enumerate([(0, 0), (0, 1), (96, 0), (32768, 0)])]
    assert [(d.npu, d.chip, d.logic) for d in devices(info(P310, dies))] == [
        (0, 0, 0),
        (0, 1, 1),
        (96, 0, 2),
        (32768, 0, 3),
    ]


def test_process_names_may_be_empty_or_hold_blanks_or_bars() -> None:
    names = ["", "a worker", "cat|tee"]
    dies = [Die(0, processes=tuple((pid, name, 120) for pid, name in enumerate(names, start=10)))]
    for layout in (A2, A2_26):
        (device,) = parse_info(info(layout, dies)).devices
        assert [process.name for process in device.processes] == names


def test_a_number_that_a_layout_does_not_know_is_none() -> None:
    (device,) = parse_info(info(P310, [Die(0, util="NA", memory=("NA", 3513), second="-")])).devices
    assert (device.utilisation_pct, device.memory_used_mb, device.memory_total_mb) == (None, None, 3513)
    assert device.logic is None


def test_text_around_and_inside_the_table_is_not_the_tables() -> None:
    lines = info(A2, [Die(0), Die(1)]).splitlines()
    lines.insert(7, "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)")
    noisy = "\n".join(["Welcome to ascend01", "", *(f"{line} " for line in lines), "[WARNING]The driver package ..."])
    assert parse_info(noisy) == parse_info(info(A2, [Die(0), Die(1)]))


def test_rows_left_out_by_the_author_of_a_page_are_skipped() -> None:
    text = info(A2, [Die(0), Die(7)])
    cut = text.replace("| 7     910B3", "| ...   ...                 | ...           | ...  ...  |\n| 7     910B3")
    report = parse_info(cut)
    assert ([device.npu for device in report.devices], report.unreadable) == ([0, 7], ())


def test_an_orphan_second_line_belongs_to_no_device() -> None:
    # the driver answers "no such device": npu-smi prints the second line of NPU 1 all the same
    lines = info(A2, [Die(0), Die(1, memory=(60000, 65536)), Die(2)]).splitlines()
    without = [line for line in lines if not line.startswith("| 1     910B3")]
    report = parse_info("\n".join(without))
    assert [(d.npu, d.memory_used_mb) for d in report.devices] == [(0, 3391), (2, 3391)]
    assert len(report.unreadable) == 1 and "60000" in report.unreadable[0]


def test_a_first_line_without_its_second_is_never_paired_with_another() -> None:
    lines = info(A2, [Die(0, memory=(60000, 65536)), Die(1)]).splitlines()
    lost = [line for line in lines if "60000" not in line and not line.startswith("| 1     910B3")]
    with pytest.raises(NpuSmiFormatError):
        parse_info("\n".join(lost))


def test_a_device_listed_twice_is_refused() -> None:
    with pytest.raises(NpuSmiFormatError, match="NPU 3 chip 0 twice"):
        parse_info(info(A2, [Die(3), Die(3)]))


@pytest.mark.parametrize(
    "row", ["| 1       0       | 4711 ", "| 1     # | 4711 | python | 900 |", "1 0 | 4711 | x | 9 |"]
)
def test_a_process_row_that_cannot_be_read_leaves_a_doubt(row: str) -> None:
    text = info(A2, [Die(0), Die(1)]).replace("| No running processes found in NPU 1".ljust(97) + "|", row)
    assert parse_info(text).devices[1].doubt


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.process])
@pytest.mark.parametrize("blot", ["", "#", "|"])
def test_rows_of_two_devices_on_one_line_leave_no_device_without_a_doubt(layout: Layout, blot: str) -> None:
    """Read as one row, they would be one process of the first device, and the second one would look idle."""
    text = info(layout, [Die(0, processes=((70, "python3.8", 102),)), Die(3, second=1, processes=((71, "sh", 103),))])
    first = next(line for line in text.splitlines() if "python3.8" in line)
    before, _, after = text.partition(first)
    assert not any(device.doubt for device in parse_info(text).devices)
    assert all(device.doubt for device in parse_info(before + first + blot + after[after.index("|") :]).devices)


def test_output_that_ends_before_or_among_the_processes_leaves_a_doubt() -> None:
    whole = info(A2, [Die(0), Die(1)])
    before, after = (
        whole[: whole.index("| NPU     Chip")],
        whole[: whole.index("| No running processes found in NPU 1")],
    )
    assert all("ends before" in device.doubt for device in parse_info(before).devices)
    headed = parse_info(whole[: whole.index("| No running processes found in NPU 0")]).devices
    assert all("ends among" in device.doubt for device in headed)
    assert parse_info(after[:-99]).devices[0].doubt == ""
    assert "ends among" in parse_info(after[:-99]).devices[1].doubt
    busy = info(A2, [Die(0), Die(1, processes=((4711, "python", 9), (4712, "python", 9)))])
    for end in ("4712", "4711"):  # nothing but the bar of the next row is left
        row = busy[: busy.index(end)].rindex("\n") + 2
        assert parse_info(busy[:row]).devices[1].doubt


def test_processes_are_found_below_a_lost_heading() -> None:
    for layout in (A2, A5_25_6):
        lines = info(layout, [Die(1, processes=((4711, "python", 900),))]).splitlines()
        text = "\n".join(line for line in lines if "Process id" not in line)
        assert [process.pid for process in parse_info(text).devices[0].processes] == [4711]


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.process])
@pytest.mark.parametrize("heading", ["spoiled", "lost"])
def test_a_row_that_looks_like_none_below_a_lost_heading_leaves_a_doubt(layout: Layout, heading: str) -> None:
    """By its width it may be a device's: its holder would look idle where npu-smi is silent about idle devices."""
    dies = [Die(0, processes=((70, "cat|tee", 102),)), Die(3, second=1, processes=((71, "sh", 103),))]
    lines = info(layout, dies).splitlines()
    text = "\n".join(line.replace("Process id", "Process i#") for line in lines)
    if heading == "lost":
        text = "\n".join(line for line in lines if "Process id" not in line)
    first, second = parse_info(text).devices
    assert first.processes or first.doubt
    assert [process.pid for process in second.processes] == [71]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("| NPU | Temperature(C) | Utilization(%) |\n| 0 | 45 | 30 |", "Temperature"),
        ("| NPU   Name | Health | Power(W) Temp(C) |\n| Card | Bus-Id | Load |", "Card"),
        (info(A2, [])[:500], "it ends before the first device"),
        ("NPU ID : 0\nChip Count : 1", "NPU ID"),
        ("", "it is empty"),
    ],
)
def test_an_unknown_format_is_an_error_that_quotes_it(text: str, quoted: str) -> None:
    with pytest.raises(NpuSmiFormatError, match=quoted) as raised:
        parse_info(text)
    assert "send the whole text" in raised.value.remedy


def test_the_mapping_goes_by_its_headings_and_skips_the_mcu() -> None:
    rows = [("4", "0", "2", "Ascend 910B3"), ("4", "1", "-", "Mcu"), ("-1", "0", "3", "Ascend 910B3")]
    assert parse_mapping(mapping(rows, MAP)) == (Mapped(4, 0, 2, None, "Ascend 910B3"),)
    a3 = mapping([("1", "1", "3", "3", "Ascend910")], (*MAP[:3], "Chip Phy-ID", MAP[3]))
    assert parse_mapping(a3.expandtabs()) == (Mapped(1, 1, 3, 3, "Ascend910"),)
    a5 = mapping([("1", "0", "0", "1", "Ascend950PR")], ("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"))
    assert parse_mapping(a5) == (Mapped(1, 0, None, 1, "Ascend950PR"),)
    assert parse_mapping("This command is not supported.") == ()


@pytest.mark.parametrize(
    "rows", [[("0", "0", "1", "X"), ("0", "0", "2", "X")], [("0", "0", "1", "X"), ("3", "0", "1", "X")]]
)
def test_a_mapping_that_gives_an_id_twice_is_refused(rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(NpuSmiFormatError, match="twice"):
        parse_mapping(mapping(rows, MAP))


def test_logic_ids_on_bare_metal() -> None:
    def logic(layout: Layout, dies: list[Die], text: str = "") -> list[int | None]:
        return [device.logic for device in devices(info(layout, dies), text)]

    assert logic(A2, [Die(1), Die(7)]) == [1, 7]
    assert logic(A2, [Die(1), Die(7)], mapping([("1", "0", "0", "X"), ("7", "0", "1", "X")], MAP)) == [0, 1]
    assert logic(A2, [Die(1), Die(7)], mapping([("1", "0", "0", "X")], MAP)) == [0, None]
    assert logic(A3, [Die(3, 0, 6), Die(3, 1, 7)]) == [6, 7]
    assert logic(A5, [Die(2), Die(3)]) == [2, 3]
    assert logic(P310, [Die(2144, 0, 0)]) == [0]


def test_logic_ids_in_a_container_count_the_visible_devices() -> None:
    assert [d.logic for d in devices(info(A2, [Die(1), Die(7)]), in_container=True)] == [0, 1]
    assert [d.logic for d in devices(info(A3, [Die(3, 1, 7)]), in_container=True)] == [0]
    assert [d.logic for d in devices(info(A5, [Die(2)]), in_container=True)] == [2]


def test_a_map_of_the_hosts_ids_is_not_believed_in_a_container() -> None:
    chips = mapping([("1", "0", "1", "X"), ("7", "0", "7", "X")], MAP)
    text = info(A2, [Die(1), Die(7)])
    assert [(d.logic, bool(d.doubt)) for d in devices(text, chips)] == [(1, False), (7, False)]
    assert [(d.logic, bool(d.doubt)) for d in devices(text, chips, in_container=True)] == [(None, True), (None, True)]
    anew = mapping([("1", "0", "1", "X"), ("7", "0", "0", "X")], MAP)
    assert [(d.logic, d.doubt) for d in devices(text, anew, in_container=True)] == [(1, ""), (0, "")]


def test_positions_are_not_counted_past_a_row_that_cannot_be_read() -> None:
    text = info(A2, [Die(1), Die(7)]).replace("| 1     910B3", "| 1#    910B3")
    assert [(d.npu, d.logic) for d in devices(text, in_container=True)] == [(7, None)]


def test_two_devices_with_one_logic_id_are_refused() -> None:
    with pytest.raises(NpuSmiFormatError, match="logic id 0 to two devices"):
        devices(info(P310, [Die(1, 0, 0), Die(2, 0, 0)]))


def test_labels_carry_both_numberings() -> None:
    (a3,) = devices(info(A3, [Die(3, 1, 7)]))
    (a5,) = devices(info(A5, [Die(4)]))
    assert (a3.label, a5.label) == ("NPU 3 chip 1 (logic 7)", "NPU 4 (logic 4)")
    assert replace(a3, logic=None).label == "NPU 3 chip 1"


@pytest.mark.parametrize(
    ("text", "status", "error", "words"),
    [
        ("dcmi module initialize failed. ret is -8005", 187, NpuSmiDriverError, "HwHiAiUser"),
        ("dcmi model initialized failed, because the device is used. ret is -8020", 172, NpuSmiInUseError, "container"),
        ("npu get board type failed. ret is -9005", 211, NpuSmiBoardTypeError, "torch_npu may work"),
        ("some query failed. ret is -8255", 1, NpuSmiError, "-8255"),
        (f"npu-smi: error while loading shared libraries: libc_sec.so: {NO_FILE}", 127, NpuSmiLibraryError, "libc_sec"),
        ("bash: line 3: npu-smi: command not found", 127, NpuSmiMissingError, "/usr/local/sbin"),
        ("sh: 1: npu-smi: not found", 127, NpuSmiMissingError, "/usr/local/sbin"),
        ("zsh:1: command not found: npu-smi", 127, NpuSmiMissingError, "/usr/local/sbin"),
        ("fish: Unknown command: npu-smi", 127, NpuSmiMissingError, "/usr/local/sbin"),
        ("timeout: failed to run command 'npu-smi': No such file or directory", 127, NpuSmiMissingError, "driver"),
        ("", 127, NpuSmiMissingError, "not found"),
        ("", 187, NpuSmiDriverError, "davinci"),
        ("", 124, NpuSmiTimeoutError, "wedged"),
    ],
)  # fmt: skip
def test_failures_of_npu_smi_have_a_name_a_cause_and_a_remedy(
    text: str, status: int, error: type[NpuSmiError], words: str
) -> None:
    with pytest.raises(NpuSmiError) as raised:
        parse_info(f"DrvMngGetConsoleLogLevel failed. (ret=4)\n{text}\n", status)
    assert type(raised.value) is error
    assert words in raised.value.message + raised.value.remedy
    code = text.partition("ret is ")[2]
    if code:
        assert raised.value.code == int(code)


def test_of_two_failures_in_a_row_the_first_one_counts() -> None:
    with pytest.raises(NpuSmiDriverError):
        parse_info("dcmi module initialize failed. ret is -8005\nnpu get board type failed. ret is -9005")


def test_a_table_that_was_cut_off_by_a_time_out_is_not_used() -> None:
    with pytest.raises(NpuSmiTimeoutError):
        parse_info(info(A2, [Die(0)]), status=137)


def test_a_whole_table_counts_in_spite_of_a_complaint_after_it() -> None:
    text = info(A2, [Die(0)]) + "npu get board type failed. ret is -9005\n"
    assert len(parse_info(text, status=211).devices) == 1


def test_a_process_may_have_a_pid_of_its_own_in_a_container() -> None:
    dies = [Die(0, processes=((326429, "", 33842, 117), (4711, "python", 108)))]
    for layout, own in ((A2_26, 117), (A5_25_6, 117), (A2, None)):
        first, second = parse_info(info(layout, dies)).devices[0].processes
        assert (first.pid, first.container_pid, second.container_pid) == (326429, own, None)


def test_a_device_under_its_number_is_the_same_otherwise() -> None:
    """Every field has a value of its own, so that none may take another's place."""
    fields = {field.name: f"the {field.name}" for field in dataclasses.fields(Device)}
    device = Device(**fields)  # type: ignore[arg-type]
    assert device.numbered(7, "doubt") == dataclasses.replace(device, logic=7, doubt="doubt")
