"""Other schedulers beside edgecron, in one run: `python -m tests.bench --peers`.

programs     where they come from: what is there, or with --install a folder of their own
embedded     edgecron, APScheduler and huey, each within a program (apps/), through the same acts
at_once      APScheduler and huey, against the same bare loops as edgecron (their scripts:
             apscheduler_jobs, huey_tasks; run by the Python that has them)
daemons      busybox crond, Debian's cron, cronstable: they fire when a minute begins
idling       what each costs with a hundred schedules and nothing due
"""
