"""`/metrics`: what Prometheus scrapes, behind the same door as all else."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.http import Api, serving


def test_prometheus_reads_the_format_that_it_asks_for(tmp_path: Path) -> None:
    with serving(tmp_path / "edge.db") as api:
        plain = api.get("/metrics")
        openly = api.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert plain.status == openly.status == 200
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert openly.headers["content-type"].startswith("application/openmetrics-text;")
    names = [one.name for one in text_string_to_metric_families(openly.body.decode())]
    assert "scheduler_runs" in names


def test_metrics_ask_for_the_token_as_all_else_does(tmp_path: Path) -> None:
    with serving(tmp_path / "edge.db", token="a-word-that-nobody-guesses") as api:
        told = Api(api.port).ask("GET", "/metrics")

    assert told.status == 401
