"""How a host is reached, and how a script gets there whole.

ssh_config, ssh_settings, ssh_alike   the hops to a host, over what `ssh` itself would do with the same name
host_keys                             which key a host may show
identity                              which keys we show it: from `key_files`, from `ssh_agent`, after a `passphrase`
public_keys                           what of a key everybody may know
doors, proxy, transports              the way there: how many at a time, through which program, by which transport
remote                                a connection that can be opened again, and scripts over it
shell, stream, pour                   a script past any login shell; what it says and is told; its output as a file
tenacity                              after a loss: when to try again, when to give up
"""
