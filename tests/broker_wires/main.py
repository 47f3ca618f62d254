"""main.py SOCKET PART...: calls a broker, and ends with 1 at the first thing that is not as it should be."""

import sys

import ours
import refusals
import table
import wires
from client import Client

PARTS = {
    "hashes": wires.hashes,
    "certificates": wires.certificates,
    "encryption": wires.encryption,
    "w5": wires.signatures,
    "health": wires.health,
    "idle": wires.idle,
    "development": wires.development,
    "production": wires.production,
    "refused-hashes": refusals.of_hash,
    "refused-certificates": refusals.of_sign,
    "refused-encryption": refusals.of_encryption,
    "refused-anything": refusals.of_any,
    "keys": ours.keys,
    "sealing": ours.sealing,
    "operations": ours.operations,
    "signatures": ours.signatures,
    "information": ours.information,
    "everything": refusals.everything,
    "rows": table.rows,
    "strangers": table.strangers,
    "without-store": table.without_store,
}

if __name__ == "__main__":
    client = Client(sys.argv[1])
    for part in sys.argv[2:]:
        PARTS[part](client)
        print("ok", part)
