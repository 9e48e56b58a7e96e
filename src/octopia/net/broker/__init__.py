"""A broker on the network: its parts, and how several brokers run in one process."""
