"""Drives the transit API by hvac: main.py ADDRESS TOKEN. Writes a line of JSON for each operation."""

import base64
import json
import sys

import hvac

failed = False


def say(operation, ok):
    global failed
    failed |= not ok
    print(json.dumps({"operation": operation, "ok": bool(ok)}))


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def raises(error, call):
    try:
        call()
    except error:
        return True
    return False


address, token = sys.argv[1:]
client = hvac.Client(url=address, token=token)
transit = client.secrets.transit
say("authenticated", client.is_authenticated())
say("health", client.sys.read_health_status(method="GET")["initialized"] and not client.sys.is_sealed())

transit.create_key(name="orders")
transit.create_key(name="invoices", key_type="ecdsa-p256")
# hvac has no name for this type.
client.adapter.post("/v1/transit/keys/hooks", json={"type": "hmac"})
say("create_key", transit.read_key(name="orders")["data"]["type"] == "aes256-gcm96")
say("list_keys", transit.list_keys()["data"]["keys"] == ["hooks", "invoices", "orders"])

first = transit.encrypt_data(name="orders", plaintext=encoded("hvac"), associated_data=encoded("row"))["data"]["ciphertext"]
say("encrypt_data", first.startswith("vault:v1:"))
opened = transit.decrypt_data(name="orders", ciphertext=first, associated_data=encoded("row"))
say("decrypt_data", opened["data"]["plaintext"] == encoded("hvac"))
wrong = lambda: transit.decrypt_data(name="orders", ciphertext=first, associated_data=encoded("other"))
say("decrypt_data of other data", raises(hvac.exceptions.InvalidRequest, wrong))

transit.rotate_key(name="orders")
say("rotate_key", transit.read_key(name="orders")["data"]["latest_version"] == 2)
plain = transit.encrypt_data(name="orders", plaintext=encoded("again"))["data"]["ciphertext"]
batch = transit.encrypt_data(name="orders", batch_input=[{"plaintext": encoded("a")}, {"plaintext": encoded("b")}])
ciphertexts = [{"ciphertext": one["ciphertext"]} for one in batch["data"]["batch_results"]]
batch = transit.decrypt_data(name="orders", batch_input=ciphertexts)["data"]["batch_results"]
say("batch", [one["plaintext"] for one in batch] == [encoded("a"), encoded("b")])
transit.rotate_key(name="orders")
rewrapped = transit.rewrap_data(name="orders", ciphertext=plain)["data"]["ciphertext"]
say("rewrap_data", rewrapped.startswith("vault:v3:"))
transit.update_key_configuration(name="orders", min_decryption_version=3, deletion_allowed=True)
say("update_key_configuration", raises(hvac.exceptions.InvalidRequest, lambda: transit.decrypt_data(name="orders", ciphertext=plain)))

key = transit.generate_data_key(name="orders", key_type="plaintext", bits=256)["data"]
say("generate_data_key", transit.decrypt_data(name="orders", ciphertext=key["ciphertext"])["data"]["plaintext"] == key["plaintext"])
say("generate_random_bytes", len(base64.b64decode(transit.generate_random_bytes(n_bytes=24)["data"]["random_bytes"])) == 24)
digest = transit.hash_data(hash_input=encoded("abc"), algorithm="sha2-256")["data"]["sum"]
say("hash_data", digest.startswith("ba7816bf"))

signed = transit.sign_data(name="invoices", hash_input=encoded("42"), hash_algorithm="sha2-256", marshaling_algorithm="asn1")
verified = lambda text, **what: transit.verify_signed_data(name=what.pop("name"), hash_input=encoded(text), **what)["data"]["valid"]
signature = signed["data"]["signature"]
say("sign_data", verified("42", name="invoices", signature=signature, hash_algorithm="sha2-256", marshaling_algorithm="asn1"))
say("verify_signed_data", not verified("43", name="invoices", signature=signature, hash_algorithm="sha2-256", marshaling_algorithm="asn1"))
tag = transit.generate_hmac(name="hooks", hash_input=encoded("body"), algorithm="sha2-256")["data"]["hmac"]
say("generate_hmac", verified("body", name="hooks", hmac=tag, hash_algorithm="sha2-256"))

transit.delete_key(name="orders")
say("delete_key", raises(hvac.exceptions.InvalidPath, lambda: transit.read_key(name="orders")))
stranger = hvac.Client(url=address, token="slw." + "0" * 64)
say("another token", raises(hvac.exceptions.Forbidden, lambda: stranger.secrets.transit.list_keys()))
sys.exit(failed)
