"""FastAPI: each worker has an engine, from its startup to its shutdown."""

# SHOWN: fastapi_app.py
from contextlib import asynccontextmanager

from fastapi import FastAPI
from jobs import report, scheduler

from edgecron.http import application

api = application(scheduler.path, token="a-secret-word-of-your-own")


@asynccontextmanager
async def lifespan(app):
    async with scheduler:
        yield
    api.close()


app = FastAPI(lifespan=lifespan)
app.mount("/jobs", api)


@app.post("/reports/{plant}")
async def make_report(plant: str) -> dict:
    run = await (await report.arun_now(plant))
    return {"status": run.status, "result": run.result}


# SHOWN: end
