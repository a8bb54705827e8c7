"""APScheduler's examples with asyncio and Tornado: a tick on the event loop of the program."""

import asyncio
from contextlib import suppress

from edgecron import Scheduler, every

scheduler = Scheduler("asyncio.db")


@scheduler.job(every("1s"))
async def tick() -> None:
    await asyncio.sleep(0)
    print("tick", flush=True)


async def main() -> None:
    async with scheduler:
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
    print("ended", flush=True)
