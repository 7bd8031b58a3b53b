"""Programs that run on the host before the agent is there, sent as text to whatever Python it has.

Python 2.7 and every 3.x understand them: a version that is too old is told apart by what it answers, not by a syntax
error. `collect_remote.survey.probe` puts them together; nothing imports them there.
"""
