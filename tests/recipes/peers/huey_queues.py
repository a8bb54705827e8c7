"""huey's example of several queues: each has its own tasks and its own number of workers."""

from edgecron import Scheduler

first = Scheduler("queues.db", name="first", max_running=2)
second = Scheduler("queues.db", name="second", max_running=1)


@first.task()
def count_beans(number: int) -> str:
    return f"counted {number} beans"


@second.task(retries=3)
def report() -> str:
    return "reported"


if __name__ == "__main__":
    with first, second:
        print(count_beans.enqueue(7).get(30))
        print(report.enqueue().get(30))
