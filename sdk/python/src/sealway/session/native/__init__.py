"""Wire 3: `spec/session-3.md`."""
