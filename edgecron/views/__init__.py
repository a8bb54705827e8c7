"""Make the texts that people see about schedules and runs, from values that the caller has read.
Pure.

Texts are plain: the command line and the dashboard clean and colour them.
"""
