"""The protocol of sealed sessions, both sides: `native` is wire 3, `compat` wires 1 and 2.

Pure: time and randomness come as arguments, and nothing here waits, draws or connects.
"""
