"""Fixtures of all tests: simulated Ascend hosts, and a client account of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import manifests
import sweeps
from harness import Tool, command_line, gone, leases
from simhost import SimHost

ASCEND_VENV = Path(
    os.environ.get("COLLECT_REMOTE_ASCEND_VENV") or Path(__file__).resolve().parents[1] / ".venv" / "ascend"
)


# What CI leaves to the whole run: it has seen their kind on the other runtime, with the other transport or in a simpler
# case, and has a quarter of an hour.
REPEATED = (
    "test_a_users_own_adapter[torch_npu]",
    "test_a_group_writable_umask_does_no_harm[torch_npu]",
    "test_the_template_runs_alone_on_a_host[torch_npu]",
    "test_the_users_python_is_found[torch_npu-",
    "test_more_than_two_gibibytes[openssh]",
    "test_transformers_with_random_weights[qwen2]",
    "test_transformers_from_a_directory",
    "test_killed_at_any_moment_it_goes_on_where_it_was[start]",
    "test_killed_at_any_moment_it_goes_on_where_it_was[pull]",
    "test_a_module_runs_as_printed[torch_npu-rl]",
    "test_a_module_runs_as_printed[torch_npu-service]",
    "test_a_pipeline_of_diffusers_by_its_denoising_steps[torch_npu]",
    "test_a_profiler_of_level_0_becomes_one_of_level_1[torch_npu-pretrain_imported.py]",
    "test_a_training_loop_without_a_profiler_by_its_step[torch_npu]",
    "test_a_module_runs_as_printed[torch_npu-inference]",
    "test_on_the_real_profiler",
    "test_the_real_torch_npu[train]",
    "test_offline_inference_with_the_real_torch_npu",
    "test_a_script_without_a_place_for_arguments[torch_npu]",
    "test_a_generate_loop_by_its_model[torch_npu]",
    "test_a_profiler_of_level_0_becomes_one_of_level_1[torch_npu-pretrain_profiled.py]",
    "test_a_step_on_a_name[torch_npu]",
    "test_a_dummy_run_is_recorded_at_level_1[torch_npu]",
    "test_a_rank_that_the_others_wait_for",
    "test_steps_of_a_program_without_a_profiler[compiled]",
    "test_processes_of_ray",
    "test_releases[0.6.1-",
    "test_releases[0.7.1-",
    "test_releases[0.8.0-",
    "test_releases_that_record_no_counters[0.15.0rc1]",
    "test_a_server_that_takes_its_time[slow_load",
    "test_a_script_without_a_profiler[prefill",
    "test_interrupted_on_all_hosts[sigterm]",
    "test_a_rank_that_fails_ends_all[raises]",
    "test_a_role_that_hangs_ends_with_the_run[there]",
    "test_cuts_at_random_moments_start_one_run_on_one_device[1]",
    "test_through_a_jump_host[torch_npu]",
    "test_over_an_ssh_config_alias[torch_npu]",
    "test_a_fit_host[torch_npu]",
    "test_what_the_real_profiler_did_not_parse[no-msprof]",
    "test_another_user_inside[root-1000]",
    "test_another_user_inside[ascend-None]",
    "test_every_engine_and_every_way_to_name_a_container[label-",
    "test_every_engine_and_every_way_to_name_a_container[prefix-",
    "test_every_engine_and_every_way_to_name_a_container[id-docker",
    "test_every_engine_and_every_way_to_name_a_container[id-nerdctl",
    "test_every_engine_and_every_way_to_name_a_container[name-nerdctl",
    "test_the_real_torch_npu_in_a_container",
    "test_waiting_ends_when_a_device_becomes_free",
    "test_a_killed_client_of_the_engine_costs_nothing[bridge]",
    "test_a_killed_client_of_the_engine_costs_nothing[start]",
    "test_cuts_at_random_moments_start_one_run_on_one_device[2]",
    "test_cuts_at_random_moments[openssh-0]",
    "test_a_controller_that_is_stopped_and_continued[openssh]",
    "test_a_server_that_is_started_again_and_again[openssh]",
    "test_what_was_brought_before_an_interruption_counts[paramiko]",
    "test_an_interrupted_pull_ends_at_once[paramiko]",
    "test_ctrl_c_reaches_the_workers",
    "test_of_several_canns_the_newest_is_taken_and_named[versions1",
    "test_of_several_canns_the_newest_is_taken_and_named[versions2",
    "test_of_several_canns_the_newest_is_taken_and_named[versions3",
    "test_the_hosts_python_may_be_older_or_newer[3.9",
    "test_the_hosts_python_may_be_older_or_newer[3.10",
    "test_the_hosts_python_may_be_older_or_newer[3.12",
    "test_a_model_that_hangs[sleeps]",
    "test_what_never_ends_is_named_in_time[sleep]",
    "test_visible_devices_and_holders[None-5-Ascend910_9392]",
    "test_visible_devices_and_holders[0,2,x",
    "test_a_server_that_takes_its_time",
    "test_a_server_that_fails[never_ready",
    "test_what_a_killed_supervisor_leaves_of_a_server_is_cleaned",
    "test_processes_of_a_cluster_that_was_there[rollout]",
    "test_a_role_that_hangs_ends_with_the_run",
    "test_ranks_of_many",
    "test_a_job_is_asked_again",
    "test_the_job_ends_before_it_has_recorded_a_step",
    "test_who_is_ready_first_waits_for_the_others",
    "test_a_port_that_is_in_use",
    "test_some_ranks_of_every_host",
    "test_any_script_over_two_hosts",
    "test_a_host_whose_ranks_are_in_a_container",
    "test_what_cannot_be_stored_here_stays_on_the_hosts",
    "test_a_job_whose_tool_was_killed",
    "test_a_rank_that_fails_ends_all[crashes]",
    "test_a_scheduler_of_ones_own",
    "test_a_pipeline_that_compiles_is_warmed_up_for_as_long_as_it_may[torch_npu]",
    "test_a_module_runs_as_printed[torch_npu-training]",
    "test_one_phase_alone[prefill]",
    "test_the_real_torch_npu_and_torchrun",
    "test_a_stranger_in_a_later_window_is_noticed_too",
    "test_a_result_waits_until_it_is_fetched",
    "test_a_running_one_is_never_removed",
    "test_several_who_follow_a_run_learn_what_became_of_its_result",
    "test_a_login_that_is_refused_for_a_while_is_no_end",
    "test_the_id_is_told_where_stdout_takes_nothing",
    "test_a_run_on_a_host_that_stays_away_is_brought_later",
    "test_a_child_with_a_clean_environment_ends_with_a_good_run",
    "test_an_engine_that_is_away_for_a_moment_costs_nothing",
    "test_host_and_containers_never_get_the_same_device",
    "test_what_stays_on_a_mount_belongs_to_its_owner",
    "test_a_run_that_is_left_alone_waits_for_its_device",
    "test_killed_at_any_moment_it_goes_on_where_it_was[load]",
    "test_a_cell_that_stands_for_something_else_is_run_anew_and_the_old_result_is_kept",
    "test_a_cluster_that_is_not_there",
    "test_the_template_takes_over_on_all_hosts",
    "test_a_lost_connection_to_one_of_them",
    "test_training_with_mindspeed_over_two_hosts",
    "test_a_job_that_goes_on_from_a_checkpoint",
    "test_a_run_that_is_left_alone_and_one_that_is_stopped",
    "test_a_dead_follower_is_replaced",
    "test_a_refused_login_and_a_slow_one",
    "test_a_diffusers_pipeline",
    "test_host_and_container_never_get_the_same_device",
    "test_the_log_has_no_turning_cursor",
    "test_who_fails_is_named_with_the_cause_and_only_that_is_run_again",
    "test_a_budget_of_failures_and_the_time_of_a_cell",
    "test_a_silent_host_delays_only_itself",
    "test_killed_at_any_moment_it_goes_on_where_it_was[publish]",
    "test_a_model_with_a_loop_of_its_own[pangu_7b]",
    "test_more_than_two_gibibytes[paramiko]",
    "test_interrupted_in_the_run[sigterm-",
    "test_a_log_tells_who_had_which_device_open[torch_npu]",
    "test_the_runtimes_know_what_npu_smi_knows_of_memory_and_lost_devices[torch_npu]",
    "test_releases[0.9.0",
    "test_a_part_of_the_answer[all",
    "test_some_of_the_ranks[arguments1]",
    "test_a_damaged_table_is_one_clear_error[-",
    "test_a_damaged_table_is_one_clear_error[a,b\\n1,\\xff",
    "test_devices_are_found_by_the_containers_own_numbers[nowhere-",
    "test_an_archive_that_is_here_is_not_brought_again_when_its_log_was_cut_off[paramiko]",
    "test_a_firewall_that_forgets_idle_connections[paramiko]",
    "test_what_cannot_be_entered[keys1-",
    "test_what_cannot_be_entered[keys3-",
    "test_what_cannot_be_entered[keys5-",
    "test_what_cannot_be_entered[keys7-",
    "test_a_window_longer_than_the_training[arguments0",
    "test_the_tokens_of_a_call_tell_its_phase[prefill",
    "test_the_tokens_of_a_call_tell_its_phase[decode",
    "test_a_module_is_switched_on[training-arguments0",
    "test_a_module_is_switched_on[inference-arguments2",
    "test_every_rank_has_its_own_profile[4]",
    "test_a_sweep_that_is_killed_goes_on_with_what_runs[template]",
    "test_nothing_else_is_touched_on_either_side[False",
    "test_a_server_that_changes_keys_all_the_time[openssh-4M-40]",
    "test_two_ranks_of_the_engine[light]",
    "test_a_job_that_runs_records_itself[light]",
    "test_daemonic_workers[light]",
    "test_a_script_without_a_place_for_arguments[light]",
    "test_a_profiler_of_its_own[light]",
    "test_the_hosts_disk_fills_up_while_a_program_runs[recording]",
    "test_a_program_that_is_killed[bash",
    "test_a_killed_supervisor[0]",
    "test_a_server_that_has_gone",
    "test_servers_that_are_not_filled_in[127.0.0.2]",
    "test_servers_that_are_not_filled_in[]",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith(REPEATED):
            item.add_marker("exhaustive")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The usual one: a test that runs a part of the agent in this process leaves the agent's to none."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def simhost(tmp_path: Path) -> Iterator[Callable[..., SimHost]]:
    """Start simulated hosts, ``simhost(name="ascend02", chip="Ascend910", ...)``; each ends with the test."""
    with ExitStack() as running:

        def start(name: str = "ascend01", **options: object) -> SimHost:
            if options.get("runtime") == "torch_npu":
                options.setdefault("ascend_venv", ASCEND_VENV)
            return running.enter_context(SimHost(tmp_path / name, name=name, **options))

        yield start


@pytest.fixture(scope="session")
def ascend_runtime() -> str:
    """The runtime with the real torch_npu; skips where it is not installed."""
    if not list(ASCEND_VENV.glob("lib/python3*/site-packages/torch_npu")):
        pytest.skip(f"no torch_npu in {ASCEND_VENV}")
    return "torch_npu"


@pytest.fixture(params=["light", pytest.param("torch_npu", marks=pytest.mark.torch_npu)])
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtimes of a simulated host, for tests that hold on both."""
    return "light" if request.param == "light" else str(request.getfixturevalue("ascend_runtime"))


@pytest.fixture
def client_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean HOME: an empty .ssh, no agent.  (The ``ssh`` program looks at the account, not at HOME.)"""
    home = tmp_path / "client-home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for what is temporary: of this test alone, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


@pytest.fixture
def tool(tmp_path: Path, client_home: Path) -> Iterator[Tool]:
    """The tool in a directory of its own; what it published there by the end of a test is as the schemas say."""
    directory = tmp_path / "here"
    directory.mkdir()
    yield Tool(directory)
    manifests.check_published(directory)
    sweeps.check_written(directory)


@pytest.fixture
def host(simhost: Callable[..., SimHost], tmp_path: Path) -> Callable[..., SimHost]:
    """Start a simulated host whose leases are its own."""

    def start(name: str = "ascend01", **options: Any) -> SimHost:
        environment = {"COLLECT_REMOTE_LEASE_DIR": str(tmp_path / f"leases-{name}"), **options.pop("env", {})}
        return simhost(name=name, env=environment, **options)

    return start


@pytest.fixture
def assert_clean(tmp_path: Path, tool: Tool) -> Iterator[Callable[..., None]]:
    """Nothing under a final name here, no process and no device held on the host."""

    def check(*hosts: SimHost) -> None:
        for host in hosts:
            assert gone(host.processes), [command_line(pid) for pid in host.processes()]
            assert host.held() == {}
        assert leases(tmp_path) == []
        assert sorted(path for path in tool.profiles.rglob("*") if not path.is_dir()) == []
        assert not (tool.profiles / ".incoming").exists()

    yield check
