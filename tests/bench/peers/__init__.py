"""Other schedulers beside edgecron, against the same bare loops: `python -m tests.bench --peers`.

programs     where they come from: what is there, or with --install a folder of their own
embedded     APScheduler and huey, in a process of their own (their scripts: apscheduler_jobs,
             huey_tasks; run by the Python that has them)
daemons      busybox crond, Debian's cron, cronstable: they fire when a minute begins
idling       what each costs with a hundred schedules and nothing due
"""
