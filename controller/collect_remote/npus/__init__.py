"""The devices of hosts: `judged` of one host as the agent judges them, of a `fleet` of hosts, of `saved` texts."""
