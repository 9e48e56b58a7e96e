"""The stated bounds of an overlay.

Every size that a user can write has a bound here, and each check runs before anything of that size is built, so that
`path:1000000000` gives an error message instead of filling the machine's memory.
"""

BROKERS_MAX = 100_000
CLUSTERS_MAX = 1_024
# A region is a complete graph: its links grow with the square of the clusters, long before the brokers are many.
LINKS_MAX = 10_000_000
LABEL_LENGTH_MAX = 64
MACHINES_MAX = BROKERS_MAX
SITES_MAX = 256
# One way. Light goes around the world in 134 ms; a minute leaves room for any experiment.
SITE_DELAY_MS_MAX = 60_000
