"""The protocol of sealed sessions, both sides: `old` is wires 1 and 2, `three` wire 3.

Pure: time and randomness come as arguments, and nothing here waits, draws or connects.
"""
