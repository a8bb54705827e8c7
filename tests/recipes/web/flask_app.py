"""Flask: its server starts the engines, see gunicorn.conf.py."""

# SHOWN: flask_app.py
from flask import Flask
from jobs import report, scheduler

app = Flask(__name__)


@app.post("/reports/<plant>")
def make_report(plant: str) -> dict:
    run = report.run_now(plant).wait(timeout=20)
    return {"status": run.status, "result": run.result}


@app.cli.command("jobs")
def run_jobs() -> None:
    """Run the jobs until Ctrl+C or TERM."""
    scheduler.run_forever()


# SHOWN: end
# What only tests need.


@app.post("/hold")
def hold_up() -> dict:
    """Answer when it is let go, and hold up the worker for as long."""
    with open("gate", "rb", buffering=0) as gate:
        gate.read(3)
    return {}
