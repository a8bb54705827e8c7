"""APScheduler's examples of job stores: each start sets an alarm, which survives restarts."""

from datetime import UTC, datetime

from edgecron import Scheduler

scheduler = Scheduler("alarms.db")


@scheduler.task()
def alarm(set_at: str) -> None:
    print(f"alarm that was set at {set_at}", flush=True)


if __name__ == "__main__":
    alarm.enqueue(datetime.now(UTC).isoformat(), delay="2s")
    print("set; to clear the alarms, delete alarms.db", flush=True)
    scheduler.run_forever()
    print("ended", flush=True)
