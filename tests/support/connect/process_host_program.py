"""A program with a `ProcessHost` and idle processes, for tests that kill it: prints their pids and waits."""

import asyncio
import sys

from ottla_connect.processes.host import ProcessHost, ProcessLimits
from ottla_connect.processes.messages import RunTask
from tests.support.connect.process_behaviours import ENTRY


async def main(count: int) -> None:
    host = ProcessHost(entry=ENTRY)
    await host.start()
    pids = [host.launcher_pid]
    for task in range(count):
        purpose = RunTask(connector="idle", task=task, connector_settings={}, settings={"do": "be_idle"}, worker={})
        child = await host.spawn(purpose, limits=ProcessLimits(), on_message=lambda _: None, on_exit=lambda _: None)
        pids.append(child.pid)
    print(*pids, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
