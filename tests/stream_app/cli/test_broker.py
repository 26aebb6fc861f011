"""`murmurec broker`: start, status, logs, stop."""

from __future__ import annotations

import json

import pytest

from stream_app.cli import run
from tests.conftest import cache_dir


@pytest.fixture
def folder(environment, tmp_path):
    cache = str(cache_dir())
    environment(MURMUREC_DATA_DIR=str(tmp_path), MURMUREC_TUNING_CACHE_DIR=cache)
    yield tmp_path
    run(["broker", "stop"])


def test_where_no_broker_runs_status_and_log_end_with_1_and_stop_with_0(folder, capsys):
    assert run(["broker", "status"]) == 1
    assert run(["broker", "status", "--log", "50"]) == 1
    assert "murmurec broker start" in capsys.readouterr().err
    assert run(["broker", "stop"]) == 0
    assert capsys.readouterr().out == "no broker was running\n"


@pytest.mark.kafka
def test_a_broker_in_the_background_from_start_to_stop(folder, capsys):
    assert run(["broker", "start", "--json"]) == 0
    started = json.loads(capsys.readouterr().out)
    assert run(["broker", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == started
    assert run(["broker", "status", "--log", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run(["broker", "stop"]) == 0
    assert capsys.readouterr().out == "stopped\n"
    assert run(["broker", "status"]) == 1
