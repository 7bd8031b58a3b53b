"""One run on the host, and those that are there.

start, supervise, stop       leave the session; run the pipeline; end it and prove it
rundir                       the names of its files
program, ranks, together     the plan's program and its reports; several ranks heard as one; the other hosts of its job
process, family              finding and ending processes; parents and descendants
result, remains, given_up    what is sent; what is left behind; the end of a run that cannot tell its own any more
runlog, room, putback        its log, with a bound; whether its disk takes more; files of others, as they were
follow, send                 both ways out
putback                      a file of the user's that it changes for a while: what it was
listing, clean               what is on the host; removing what has ended
"""
