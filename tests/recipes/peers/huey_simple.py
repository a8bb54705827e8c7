"""huey's example `simple`: tasks, retries, a periodic task, and results with asyncio."""

import asyncio

from edgecron import RunContext, Scheduler

scheduler = Scheduler("simple.db", max_running=6)


@scheduler.task()
def count_beans(number: int) -> str:
    return f"counted {number} beans"


@scheduler.job("*/5 * * * *")
def every_five_minutes() -> None:
    print("printed every five minutes")


@scheduler.task(retries=3, retry_delay=0)
def try_thrice(run: RunContext, text: str) -> str:
    if run.attempt < 3:
        raise OSError("it will be tried again")
    return f"{text} in attempt {run.attempt}"


@scheduler.task()
async def slow(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def main() -> None:
    async with scheduler:
        beans = int(input("beans? "))
        print(await (await count_beans.aenqueue(beans)).aget())
        print(await (await try_thrice.aenqueue("done")).aget())
        runs = [await slow.aenqueue(0.1) for _ in range(3)]
        print(await asyncio.gather(*(run.aget() for run in runs)))
        group = await slow.aenqueue_many([0.1, 0.2, 0.3])
        print([await run.aget() for run in group])


if __name__ == "__main__":
    asyncio.run(main())
