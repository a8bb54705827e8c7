"""The recipes of `help tracing`, with exporters that keep everything in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgecron.embedding.testing import travel

FOLDER = Path(__file__).parents[1] / "recipes" / "middleware"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a recipe, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    loaded: list[str] = []

    def load(name: str) -> ModuleType:
        loaded.append(name)
        return import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.mark.needs_package("opentelemetry.sdk")
def test_each_attempt_is_a_span_in_the_trace_of_its_caller(load: Any) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    recipe = load("tracing")

    with travel(recipe.scheduler):
        with recipe.tracer.start_as_current_span("request") as request:
            ordered = recipe.order_report("plc1")
        assert ordered.get() == "all is well in plc1"
        recipe.report.run_now().get()
        failed = recipe.fail.run_now().wait()
        skipped = recipe.decline.run_now().wait()

    spans = list(exporter.get_finished_spans())
    assert [span.name for span in spans] == [
        *("request", "query", "report", "query", "report", "fail", "decline"),
    ]
    _, query, report, _, own, fail, decline = spans
    assert report.parent is not None
    assert report.parent.span_id == request.get_span_context().span_id
    assert query.parent is not None
    assert query.parent.span_id == report.context.span_id
    assert own.parent is None
    assert dict(report.attributes or {}) == {"edgecron.run": ordered.id, "edgecron.attempt": 1}
    assert (failed.status, fail.status.status_code.name) == ("failed", "ERROR")
    assert [event.name for event in fail.events] == ["exception"]
    assert (skipped.status, decline.status.status_code.name) == ("skipped", "UNSET")
    assert (decline.attributes or {})["edgecron.skipped"] == "nothing to do"


@pytest.mark.needs_package("sentry_sdk")
def test_each_exception_is_an_event_with_its_run(load: Any) -> None:
    import sentry_sdk
    from sentry_sdk.transport import Transport

    sent: list[Any] = []

    class Memory(Transport):
        def capture_envelope(self, envelope: Any) -> None:
            sent.append(envelope.get_event())

    sentry_sdk.init(dsn="http://key@localhost/1", transport=Memory, default_integrations=False)
    try:
        recipe = load("errors")
        with travel(recipe.scheduler):
            runs = [job.run_now().wait() for job in (recipe.sync, recipe.sync_later)]
            recipe.decline.run_now().wait()
        sentry_sdk.flush()
    finally:
        sentry_sdk.get_client().close()
        # Another `init` would also patch Starlette, whose later tests are in this process.
        sentry_sdk.get_global_scope().set_client(None)

    found = [(event["tags"], event["exception"]["values"][-1]["value"]) for event in sent if event]
    assert found == [
        ({"schedule": "sync", "run": runs[0].id, "attempt": 1}, "no such plc: plc1"),
        ({"schedule": "sync_later", "run": runs[1].id, "attempt": 1}, "no such tag"),
    ]
