"""The demo overlay: brokers with a quote generator, in a separate process, to experiment with.

plan.py       its contents: the overlay, feeds, readers
quotes.py     an endless stream of generated quotes
overlay.py    brokers and clients, and operations on them
process.py    the same as a child process that takes orders
"""

from octopia.console.demo.contents import DemoPlan, demo_config
from octopia.console.demo.process import DemoProcess

__all__ = ["DemoPlan", "DemoProcess", "demo_config"]
