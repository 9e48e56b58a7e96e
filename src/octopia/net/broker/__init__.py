"""A broker on the network: what it is made of, and how some of them run in one process."""
