"""huey's example `mini`: tasks within one process, now and after a delay."""

from edgecron import Scheduler

scheduler = Scheduler("mini.db")


@scheduler.task()
def add(a: int, b: int) -> int:
    return a + b


if __name__ == "__main__":
    with scheduler:
        print(add.enqueue(1, 2).get(30))
        print(add.enqueue(10, 20, delay="200ms").get(30))
