"""From the bytes of a read to the bytes for each queue: two engines behind one interface (`outcome.Engine`).

`reference.py` is plain Python and defines what a broker does; `compiled.py` does the same for everyday notifications in
a few compiled calls, and hands what is rare to the reference, one by one, in place and in order. A broker uses one of
them for everything. An engine never touches a queue.
"""
