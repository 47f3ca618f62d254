"""Bytes on the wire: encodings, identifiers, headers, JSON. Pure: no clock, no randomness, no network."""
