"""The process that starts and watches an engine's commands, and outlives the engine.

It also holds the runners, which take claims of an engine and return outcomes. Nothing here knows
the store. A command's way, in the order of its files:

command_runner  turns a claim into a request, and an exit record into an outcome
link            the engine's side of the connection: requests out, events in
loop            the supervisor's event loop, on top of `reactor`
start           requests until they have a place and are started; `forked_start` starts them as
                another user or with another niceness
live_runs       pipes, time-outs and ends; `run_session` has the processes of a run
output          what a run prints, within its cap
results         the result that a run leaves
live_run        its record of starts and ends, until the engine has them too
journal         the same in a file, for the case that everybody dies; removing dead files

Other files: `launch` starts a supervisor below its guardian. `control` has both ends of the
socket over which any process of the user asks a supervisor. `callable_runner` runs functions of the
program on `threads`.
"""
