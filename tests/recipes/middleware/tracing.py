"""A program whose runs are spans of OpenTelemetry. A test imports it and reads the spans."""

# SHOWN: tracing.py
from opentelemetry import propagate, trace

from edgecron import RunContext, Scheduler, Skip

scheduler = Scheduler("app.db")
tracer = trace.get_tracer("jobs")


@scheduler.middleware
def traced(run: RunContext):
    """Make each attempt a span, in the trace of the caller if the payload names it."""
    arguments = run.payload if isinstance(run.payload, dict) else {}
    skipped = None
    with tracer.start_as_current_span(run.schedule, propagate.extract(arguments)) as span:
        span.set_attributes({"edgecron.run": run.id, "edgecron.attempt": run.attempt})
        try:
            yield  # An exception becomes part of the span, and makes it an error.
        except Skip as skip:
            span.set_attribute("edgecron.skipped", str(skip))
            skipped = skip
    if skipped is not None:
        raise skipped


@scheduler.job("@hourly")
def report(plant: str = "all", traceparent: str = "") -> str:
    with tracer.start_as_current_span("query"):
        return f"all is well in {plant}"


def order_report(plant: str):
    caller: dict[str, str] = {}
    propagate.inject(caller)  # traceparent of the current span
    return report.run_now(plant, **caller)


# SHOWN: end


@scheduler.job("@hourly")
async def fail() -> None:
    raise OSError("no such plc")


@scheduler.job("@hourly")
def decline() -> None:
    raise Skip("nothing to do")
