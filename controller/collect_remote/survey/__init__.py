"""What is known of a host before anything is decided: one round trip, plain data.

survey             the Facts, from the answers of both sides of a container
script, probe      what is sent: the script that loads the environment, and the programs of `onhost` as one text
shape, troubles    what comes back, checked before it is used; its complaints as errors
environment        the captured environment: given back exactly, shown without secrets
project            what a model's project shows
glance             the devices of a host and nothing else, for half of what a survey costs
"""
