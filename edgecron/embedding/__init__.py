"""A program's own schedules: its functions as jobs, and an engine within it.

scheduler      Scheduler: start and stop its engine, subscribe to events
program        what a program declares, and what it asks of the database
declarations   the declared functions and schedules; their options
job            one schedule as an object: a Job is a decorated function
adding         schedules that a program adds at run time
entry          one schedule by its name, to change and remove; the job of an added one
run            one run as an object, and waiting for its end
failures       which exceptions are retried; functions that are called after the last attempt
context        what a function gets: its arguments, its run; middleware, the code around it
events         events of runs as values; subscriptions: callbacks and streams of them
run_watch      what other engines start and end, for subscribers
own_engine     the engine's thread, restarted if it dies; how it stops
processes      functions in other processes: import paths, processes of their own; child is the
               main file of such a process
concurrency    threads and their database connections, event loops, forks
testing        for tests of programs; travel_* are its parts
pytest_plugin  fixtures of pytest: scheduler, travel

No thread starts and no database opens before you use it.
"""
