"""Wires 1 and 2: `spec/session.md`."""
