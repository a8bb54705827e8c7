"""huey's example `synchronize`: enqueue ten calls of each task, then collect all results."""

from edgecron import Scheduler

scheduler = Scheduler("synchronize.db")


@scheduler.task()
def find(word: str) -> str:
    return f"found {word}"


@scheduler.task()
def count(word: str) -> int:
    return len(word)


if __name__ == "__main__":
    words = [f"test{number}" for number in range(10)]
    with scheduler:
        for task in (find, count):
            runs = task.enqueue_many(words)
            print(task.name, len([run.get(30) for run in runs]))
