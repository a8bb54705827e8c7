"""What help and the manual page say alike: everyday acts, exit codes."""

from __future__ import annotations

USAGE = "edgecron [--db PATH] [--json] [--color WHEN] [--config PATH] VERB ..."
EVERYDAY = """\
edgecron add backup --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me
edgecron daemon                 run what is due, in the foreground
edgecron                        the dashboard, on a terminal
edgecron list                   all schedules, what comes next, how they do
edgecron show backup            all about one, and why it runs or does not
edgecron run backup --wait      run it now, and see what it prints
edgecron history backup         what became of its runs
edgecron logs -f backup         what a run prints, as it comes
edgecron cancel 41              end run 41
edgecron edit backup --cron "30 3 * * *"
edgecron pause backup           hold it; resume lets it go on
edgecron rm backup              remove it; its history stays
edgecron undo backup            restore it
edgecron check "30 2 * * 1-5"   a cron text in plain words
crontab -l | edgecron import crontab -"""
EXIT_CODES = {
    0: "ok",
    1: "failed",
    2: "bad usage or input",
    3: "no such thing",
    4: "already there",
    5: "database unusable",
}
