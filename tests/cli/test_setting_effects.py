"""Every documented setting has a test of its effect; here is which.

That an option, a variable and a key reach the field of `Settings` is tested for all rows in `test_configuration.py`.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from monopath.cli.configuration.setting import Setting
from monopath.cli.configuration.table import SETTINGS
from tests.support.processes import run_monopath

TESTS = Path(__file__).parents[1]
EFFECTS = {
    "address": ("cli/test_serve.py", "test_a_server_tells_its_address_twice_and_ends_cleanly_on_a_signal"),
    "workers": ("stream/test_settings.py", "test_so_many_workers_decode_at_the_same_time"),
    "preset": ("cli/test_serve.py", "test_options_can_come_from_the_environment"),
    "cuda": ("engine/test_device_rows.py", "test_a_server_without_a_gpu_says_why_it_shares_no_memory"),
    "ready_file": ("cli/test_serve.py", "test_a_server_tells_its_address_twice_and_ends_cleanly_on_a_signal"),
    "log_level": ("cli/test_setting_effects.py", "test_the_log_has_what_its_level_says"),
    "tls_cert": ("security/test_listening.py", "test_beyond_this_host_a_server_with_tls_listens"),
    "tls_key": ("security/test_listening.py", "test_beyond_this_host_a_server_with_tls_listens"),
    "tls_client_ca": ("security/test_certificates.py", "test_with_a_client_authority_only_its_clients_are_let_in"),
    "token_file": ("security/test_peers.py", "test_a_token_is_a_client"),
    "insecure": ("security/test_listening.py", "test_what_is_safe_or_said_to_be_is_not_refused"),
    "reflection": (
        "security/test_listening.py",
        "test_the_contract_can_be_asked_for_on_this_host_only_unless_told_otherwise",
    ),
    "channelz": ("security/test_listening.py", "test_grpcs_counters_can_be_asked_for_where_that_was_asked_for"),
    "max_peer_streams": ("security/test_peers.py", "test_a_token_is_a_client"),
    "max_peer_items": (
        "security/test_peers.py",
        "test_a_client_that_holds_its_share_is_answered_overloaded_and_others_are_not",
    ),
    "max_peer_bytes": (
        "security/test_peers.py",
        "test_a_client_that_holds_its_share_is_answered_overloaded_and_others_are_not",
    ),
    "max_peer_pixels": (
        "security/test_peers.py",
        "test_a_client_that_holds_its_share_is_answered_overloaded_and_others_are_not",
    ),
    "log_format": ("cli/test_serve_telemetry.py", "test_metrics_and_probes_are_served_and_the_log_is_json"),
    "metrics_address": ("cli/test_serve_telemetry.py", "test_metrics_and_probes_are_served_and_the_log_is_json"),
    "otlp_endpoint": (
        "cli/test_serve_telemetry.py",
        "test_spans_are_asked_for_by_an_option_or_by_the_variables_of_opentelemetry",
    ),
    "processes": ("cli/test_serve_many.py", "test_several_processes_are_one_target_and_a_killed_one_comes_back"),
    "devices": ("cli/test_serve_many.py", "test_every_process_sees_its_own_device"),
    "grace": ("stream/test_stop.py", "test_an_idle_stream_that_stays_ends_unavailable_after_the_grace"),
    "lame_duck": (
        "stream/test_stop.py",
        "test_readiness_goes_off_during_the_lame_duck_while_liveness_stays_and_new_streams_are_served",
    ),
    "max_image_bytes": ("stream/test_settings.py", "test_an_image_may_be_as_large_as_the_limits_and_no_larger"),
    "max_image_side": ("stream/test_settings.py", "test_an_image_may_be_as_large_as_the_limits_and_no_larger"),
    "max_image_pixels": ("stream/test_settings.py", "test_an_image_may_be_as_large_as_the_limits_and_no_larger"),
    "max_feature_bytes": ("stream/test_items.py", "test_an_image_over_a_limit_is_refused_with_both_numbers"),
    "max_unfinished_items": ("stream/test_order.py", "test_the_server_stops_reading_at_its_limit_of_unfinished_items"),
    "max_unfinished_bytes": ("stream/test_settings.py", "test_a_stream_that_holds_what_it_may_is_read_no_further"),
    "max_unfinished_pixels": ("stream/test_settings.py", "test_a_stream_that_holds_what_it_may_is_read_no_further"),
    "chunk_bytes": (
        "stream/test_settings.py",
        "test_chunks_have_the_size_of_the_setting_where_the_client_asks_for_none",
    ),
    "max_streams": (
        "load/test_hostile_clients.py",
        "test_one_stream_too_many_is_refused_with_both_sides_of_the_limit_and_a_time_to_retry",
    ),
    "max_process_items": (
        "load/test_hostile_clients.py",
        "test_a_full_server_answers_items_with_both_numbers_and_a_time_to_retry",
    ),
    "max_process_bytes": (
        "load/test_hostile_clients.py",
        "test_a_full_server_answers_items_with_both_numbers_and_a_time_to_retry",
    ),
    "max_process_pixels": (
        "load/test_hostile_clients.py",
        "test_a_full_server_answers_items_with_both_numbers_and_a_time_to_retry",
    ),
    "idle_buffer_bytes": ("stream/test_settings.py", "test_memory_is_kept_between_images_up_to_the_setting"),
    "cache_bytes": ("stream/test_cache.py", "test_a_server_without_a_cache_says_so"),
    "shared_memory_dir": (
        "stream/test_shared_memory_opening.py",
        "test_a_server_without_its_directory_serves_inline_and_says_why",
    ),
    "max_shared_memory_bytes": (
        "stream/test_shared_memory.py",
        "test_results_in_the_order_sent_keep_it_with_handles_and_chunks",
    ),
    "max_shared_device_bytes": ("stream/test_settings.py", "test_a_device_shares_no_memory_where_it_may_share_none"),
    "lease_timeout": ("stream/test_shared_memory_leases.py", "test_bytes_of_a_lease_that_ran_out_stay_what_they_were"),
    "batch_wait_us": ("stream/test_settings.py", "test_a_free_device_waits_for_an_image_on_its_way"),
    "opening_timeout": ("load/test_hostile_clients.py", "test_a_client_that_says_nothing_more_is_ended"),
    "idle_timeout": ("load/test_hostile_clients.py", "test_a_client_that_says_nothing_more_is_ended"),
    "reply_timeout": ("load/test_hostile_clients.py", "test_a_client_that_does_not_read_is_ended_and_holds_nothing"),
    "max_stream_age": (
        "load/test_stream_age.py",
        "test_an_old_stream_is_asked_to_move_once_and_serves_on_until_its_client_half_closes",
    ),
}
"""By the settings' names: the file under `tests/` and the test."""


def test_every_setting_has_a_test_of_its_effect() -> None:
    assert list(EFFECTS) == [setting.name for setting in SETTINGS]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_test_of_a_setting_exists_and_sets_it(setting: Setting) -> None:
    file, name = EFFECTS[setting.name]
    text = (TESTS / file).read_text("utf-8")
    [test] = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    first = min([test.lineno, *(decorator.lineno for decorator in test.decorator_list)])
    source = "\n".join(text.splitlines()[first - 1 : test.end_lineno])
    field = setting.sets.rpartition(".")[2]
    assert any(word in source for word in (setting.flag, setting.variable, field or setting.name))


@pytest.mark.parametrize(("level", "is_logged"), [("warning", True), ("error", False)])
def test_the_log_has_what_its_level_says(tmp_path: Path, level: str, is_logged: bool) -> None:
    config = tmp_path / "preprocessor_config.json"
    values = {"patch_size": 28, "merge_kernel_size": 1, "in_patch_limit": 64, "patch_limit_on_one_side": 8}
    config.write_text(json.dumps({**values, "image_mean": 0.5, "image_std": 0.25, "unheard_of": 1}))
    done = run_monopath("serve", "--check", "--preset", f"mine={config}", "--log-level", level)
    assert done.exit_code == 0
    assert ("WARNING monopath.cli.serve_presets: preset mine" in done.stderr) is is_logged
