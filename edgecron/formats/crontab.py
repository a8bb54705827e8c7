"""Crontabs into schedules, purely: no database, no clock, nothing is changed or run.

`read_crontab` reads a file's text; `find_new` tells what of it is not there yet; `comment_out`
gives the text in which cron no longer runs the moved lines. A line that can't be carried over as
cron has it is a Problem, and then nothing of the file should be imported.

- values: what the reading gives; lines, fields, commands: a line and its parts, as cron has them
- anacron: a line of an anacrontab; identity: which schedule a line became
- settings: the variables in force; comments: a description; names, programs: a name for an entry
- reading: all of it, line by line
- known: what is there already; places: whose crontab a path is; moving: comment_out
  and back
- writing: the way back, schedules to a crontab as far as it can say them
"""

from edgecron.formats.crontab_known import find_new
from edgecron.formats.crontab_moving import comment_out, put_back
from edgecron.formats.crontab_places import find_spool_owner, is_system_path
from edgecron.formats.crontab_reading import read_crontab
from edgecron.formats.crontab_values import Comparison, Crontab, Entry, Notice, Problem

__all__ = [
    "Comparison",
    "Crontab",
    "Entry",
    "Notice",
    "Problem",
    "comment_out",
    "find_new",
    "find_spool_owner",
    "is_system_path",
    "put_back",
    "read_crontab",
]
