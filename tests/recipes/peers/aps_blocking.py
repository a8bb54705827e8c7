"""APScheduler's example of a blocking scheduler: the program only ticks, until Ctrl+C."""

from edgecron import RunContext, Scheduler, every

scheduler = Scheduler("blocking.db")


@scheduler.job(every("1s"))
def tick(run: RunContext) -> None:
    print(f"tick of {run.plan_at:%H:%M:%S} UTC", flush=True)


if __name__ == "__main__":
    scheduler.run_forever()
    print("ended", flush=True)
