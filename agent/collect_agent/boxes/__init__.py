"""A run in a container, whose devices are its host's: the keeper there, and the way between both."""
