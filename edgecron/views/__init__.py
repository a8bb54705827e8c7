"""What people see of schedules and runs, made from values that somebody else has read. Pure.

Texts are plain: the command line and the dashboard clean and colour them.
"""
