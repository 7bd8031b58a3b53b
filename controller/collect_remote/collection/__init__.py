"""One run, from a request to a published result.

pipeline            the outline: collect(), start(), preview()
session             one command on one host: its connection, its events, where errors happened
launch, deploy      what is asked of a host; the agent on it
run, wire           a run there, seen from here; what it tells, checked before it is used
bring, transfer     from a run to its published result; pulling, resumable, with every digest checked
manage              runs(), attach(), stop(), clean(): of runs that are there
"""
