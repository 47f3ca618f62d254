"""The arithmetic of spec/channel.md, both profiles, straight from its text, and the scenarios of vectors/channel."""

import base64
import hashlib
import json
import struct
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

import kem
import noise
from noise import hmac256
from session import fixed

HERE = Path(__file__).resolve().parent


def b64u(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64u(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def expand(prk: bytes, info: str, length: int = 32) -> bytes:
    return hmac256(prk, info.encode(), b"\1")[:length]


def v1_public(suite: int, private: bytes) -> bytes:
    if suite == 1:
        key = x25519.X25519PrivateKey.from_private_bytes(private).public_key()
        return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    key = ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1()).public_key()
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def transcript(suite, client_features, server_features, channel_id, nonce_c, nonce_s, client_public, server_public):
    counted = lambda data: struct.pack(">H", len(data)) + data
    return hashlib.sha256(
        b"flowersec-e2ee-v1" + struct.pack(">BHBII", 1, suite, 1, client_features, server_features)
        + counted(channel_id.encode()) + nonce_c + nonce_s + counted(client_public) + counted(server_public)).digest()


def v1_record(key, prefix, flags, seq, plaintext):
    header = b"FSEC" + struct.pack(">BBQI", 1, flags, seq, len(plaintext) + 16)
    return header + AESGCM(key).encrypt(prefix + struct.pack(">Q", seq), plaintext, header)


def frame(magic, kind, payload):
    return magic + struct.pack(">BBI", 1, kind, len(payload)) + payload


class V1Direction:
    FLAGS = {"data": 0, "ping": 1, "rekey": 2}

    def __init__(self, prk, base, th, name, number):
        self.key, self.prefix = expand(prk, f"flowersec-e2ee-v1:{name}:key"), expand(prk, f"flowersec-e2ee-v1:{name}:nonce_prefix", 4)
        self.base, self.th, self.number, self.seq = base, th, number, 1

    def record(self, kind, plaintext=b""):
        out = v1_record(self.key, self.prefix, self.FLAGS[kind], self.seq, plaintext)
        if kind == "rekey":
            salt = hmac256(self.base, self.th, struct.pack(">QB", self.seq, self.number))
            self.key = expand(hmac256(salt, b"flowersec-e2ee-v1:rekey"), "flowersec-e2ee-v1:rekey:key")
        self.seq += 1
        return out


TALK = [("client", "data", b"hello"), ("client", "ping", b""), ("client", "rekey", b""), ("client", "data", b"hello"),
        ("server", "data", b"hello"), ("server", "rekey", b""), ("server", "data", b"after"), ("client", "data", b"")]


def v1_handshake(suite, channel_id, psk, features, nonces, privates, handshake_id_random, timestamp_s, known):
    (cf, sf), (nc, ns), (cp, sp) = features, nonces, privates
    c_pub, s_pub = v1_public(suite, cp), v1_public(suite, sp)
    shared = noise.agree("25519" if suite == 1 else "P256", cp, s_pub)
    th = transcript(suite, cf, sf, channel_id, nc, ns, c_pub, s_pub)
    tag = hmac256(psk, th, struct.pack(">Q", timestamp_s))
    prk = hmac256(psk, shared, th)
    base = expand(prk, "flowersec-e2ee-v1:rekey_base")
    c2s, s2c = V1Direction(prk, base, th, "c2s", 1), V1Direction(prk, base, th, "s2c", 2)
    handshake_id = b64u(handshake_id_random)
    compact = lambda body: json.dumps(body, separators=(",", ":"))
    init = compact({"channel_id": channel_id, "role": 1, "version": 1, "suite": suite, "client_eph_pub_b64u": b64u(c_pub),
                    "nonce_c_b64u": b64u(nc), "client_features": cf})
    resp = compact({"handshake_id": handshake_id, "server_eph_pub_b64u": b64u(s_pub), "nonce_s_b64u": b64u(ns),
                    "server_features": sf})
    ack = compact({"handshake_id": handshake_id, "timestamp_unix_s": timestamp_s, "auth_tag_b64u": b64u(tag)})
    out = dict(
        suite=suite, channel_id=channel_id, psk_hex=psk.hex(), client_features=cf, server_features=sf,
        client_nonce_hex=nc.hex(), server_nonce_hex=ns.hex(), client_private_hex=cp.hex(), server_private_hex=sp.hex(),
        handshake_id_random_hex=handshake_id_random.hex(), timestamp_s=timestamp_s,
        shared_hex=shared.hex(), transcript_hex=th.hex(), auth_tag_hex=tag.hex(),
        client_key_hex=c2s.key.hex(), server_key_hex=s2c.key.hex(), rekey_base_hex=base.hex(),
        client_nonce_prefix_hex=c2s.prefix.hex(), server_nonce_prefix_hex=s2c.prefix.hex(), init=init, resp=resp, ack=ack)
    for name, value in known.items():
        assert out[name] == value, f"the published {name} differs"
    # The server's first record is the ping that proves its keys.
    talk = [("server", "ping", b"")] + TALK
    out["records"] = [dict(sender=sender, kind=kind, plaintext_hex=plain.hex(),
                           message_hex=(c2s if sender == "client" else s2c).record(kind, plain).hex())
                      for sender, kind, plain in talk]
    return out


def published(name):
    return json.loads((HERE / name).read_text())


def hexes(values, **names):
    return {new: unb64u(values[old]).hex() for new, old in names.items()}


def add_v1(add):
    given = published("published_v1.json")
    one = given["handshake_x25519"]
    get = lambda source, *names: [unb64u(source[name]) for name in names]
    known = hexes(one, shared_hex="shared_secret_b64u", transcript_hex="transcript_hash_b64u", client_key_hex="c2s_b64u",
                  server_key_hex="s2c_b64u", rekey_base_hex="rekey_b64u", client_nonce_prefix_hex="c2s_np_b64u",
                  server_nonce_prefix_hex="s2c_np_b64u", auth_tag_hex="auth_tag_b64u")
    body = v1_handshake(1, one["channel_id"], unb64u(one["psk_b64u"]), (one["client_features"], one["server_features"]),
                        get(one, "nonce_c_b64u", "nonce_s_b64u"), get(one, "client_eph_priv_b64u", "server_eph_priv_b64u"),
                        fixed("handshake id", 24), one["timestamp_unix_s"], known)
    sent = [record["message_hex"] for record in body["records"] if record["sender"] == "client"]
    for at, name in enumerate(["c2s_record_seq1_app_hello_b64u", "c2s_record_seq2_ping_b64u", "c2s_record_seq3_rekey_b64u",
                               "c2s_record_seq4_app_after_rekey_b64u"]):
        assert sent[at] == unb64u(one[name]).hex(), f"the published {name} differs"
    add("channel-v1", "v1-x25519", "The published handshake on X25519, and records of both directions around a change of key.", body)

    case = given["handshake_p256"]
    two, want = case["inputs"], case["expected"]
    known = hexes(want, shared_hex="shared_secret_b64u", transcript_hex="transcript_hash_b64u", client_key_hex="c2s_key_b64u",
                  server_key_hex="s2c_key_b64u", rekey_base_hex="rekey_base_b64u",
                  client_nonce_prefix_hex="c2s_nonce_prefix_b64u", server_nonce_prefix_hex="s2c_nonce_prefix_b64u")
    body = v1_handshake(2, two["channel_id"], unb64u(two["psk_b64u"]), (two["client_features"], two["server_features"]),
                        get(two, "nonce_c_b64u", "nonce_s_b64u"), get(two, "client_eph_priv_b64u", "server_eph_priv_b64u"),
                        fixed("handshake id p256", 24), 1_700_000_000, known)
    add("channel-v1", "v1-p256", "The published handshake on P-256.", body)

    case = given["transcript"]
    v = case["inputs"]
    th = transcript(v["suite"], v["client_features"], v["server_features"], v["channel_id"],
                    *get(v, "nonce_c_b64u", "nonce_s_b64u", "client_eph_pub_b64u", "server_eph_pub_b64u"))
    assert th == unb64u(case["expected"]["transcript_hash_b64u"])
    add("channel-v1-transcript", "v1-transcript", "The published transcript hash of public keys that belong to nobody.", dict(
        suite=v["suite"], client_features=v["client_features"], server_features=v["server_features"], channel_id=v["channel_id"],
        **hexes(v, client_nonce_hex="nonce_c_b64u", server_nonce_hex="nonce_s_b64u", client_public_hex="client_eph_pub_b64u",
                server_public_hex="server_eph_pub_b64u"), transcript_hex=th.hex()))

    case = given["record"]
    v = case["inputs"]
    key, prefix, plain = unb64u(v["key_b64u"]), unb64u(v["nonce_prefix_b64u"]), v["plaintext_utf8"].encode()
    message = v1_record(key, prefix, v["flags"], v["seq"], plain)
    assert message == unb64u(case["expected"]["frame_b64u"])
    add("channel-v1-record", "v1-record", "The published record under a key of its own.", dict(
        key_hex=key.hex(), nonce_prefix_hex=prefix.hex(), kind="data", seq=v["seq"], plaintext_hex=plain.hex(),
        message_hex=message.hex()))


def add_published_noise(add):
    for v in published("published_noise.json"):
        raw = lambda name: bytes.fromhex(v[name]) if name in v else None
        sides = []
        for who, initiator in (("init", True), ("resp", False)):
            place = int(v["protocol_name"].split("psk")[1][0])
            sides.append(noise.Side(v["protocol_name"], initiator, raw(f"{who}_prologue"), {place: bytes.fromhex(v[f"{who}_psks"][0])},
                                    raw(f"{who}_static"), raw(f"{who}_ephemeral"), raw(f"{who}_remote_static")))
        messages = []
        for message in v["messages"]:
            if not sides[0].messages:
                break
            writer, reader = sides[len(messages) % 2], sides[1 - len(messages) % 2]
            payload = bytes.fromhex(message["payload"])
            sent = writer.write(payload)
            assert sent.hex() == message["ciphertext"] and reader.read(sent) == payload, v["protocol_name"]
            messages.append(dict(payload_hex=message["payload"], message_hex=message["ciphertext"]))
        keys = sides[0].split()
        assert sides[0].h.hex() == v["handshake_hash"]
        add("noise", "noise-" + v["protocol_name"].split("_", 1)[1], "A published handshake (cacophony), payloads and all.", dict(
            noise_name=v["protocol_name"], prologue_hex=v["init_prologue"], psk_hex=v["init_psks"][0],
            client_static_hex=v.get("init_static", ""), server_static_hex=v.get("resp_static", ""),
            client_ephemeral_hex=v["init_ephemeral"], server_ephemeral_hex=v["resp_ephemeral"], messages=messages,
            handshake_hash_hex=v["handshake_hash"], client_key_hex=keys[0].hex(), server_key_hex=keys[1].hex()))


class NativeDirection:
    KINDS = {"data": 1, "ping": 2, "pong": 3, "rekey": 4, "close": 5}

    def __init__(self, cipher, key, flags, rekey_after, pad_to):
        self.cipher, self.key, self.flags, self.seq, self.used = cipher, key, flags, 1, 0
        self.rekey_after, self.pad_to = rekey_after, pad_to

    def record(self, kind, content):
        self.used += 1
        changes = kind == "rekey" or self.used == self.rekey_after
        inner = content + bytes([self.KINDS[kind] | (0x80 if changes else 0)])
        if self.pad_to > 1:
            inner += bytes(-len(inner) % self.pad_to)
        header = b"SWNR" + struct.pack(">BBQI", 1, self.flags, self.seq, len(inner) + 16)
        aead = AESGCM if self.cipher == "AESGCM" else ChaCha20Poly1305
        out = header + aead(self.key).encrypt(bytes(4) + struct.pack(">Q", self.seq), inner, header)
        self.seq += 1
        if changes:
            self.key, self.used = expand(self.key, "sealway-channel-v1 next key"), 0
        return out


def number(value):
    return struct.pack(">Q", value)


NATIVE_TALK = [("client", "data", b"hello"), ("server", "data", b"hello"), ("client", "ping", number(7)),
               ("server", "pong", number(7)), ("client", "rekey", b""), ("client", "data", b"after"), ("server", "data", b""),
               ("server", "data", b"more"), ("client", "data", b"again"), ("client", "close", b"\0\7done")]


def binding(audience, issuer):
    counted = lambda text: struct.pack(">Q", len(text)) + text
    return hashlib.sha256(b"sealway-channel-v1 grant" + counted(audience.encode()) + counted(issuer.encode())).digest()


def native(suite, name):
    curve, cipher = name.split("_")[2:4]
    pattern, hybrid = name.split("_")[1], suite & 4
    channel_id, init_expires_s, audience, issuer = "chan-native-1", 1_700_000_060, "relay.example", "control.example"
    psk, allowed = fixed("native psk"), [suite, 0x100] if suite != 0x100 else [0x100]
    bound = binding(audience, issuer)
    prologue = (b"sealway-channel-v1" + struct.pack(">H", len(channel_id)) + channel_id.encode() + struct.pack(">Q", init_expires_s)
                + b"\1\2" + bound + struct.pack(">HB", suite, len(allowed)) + b"".join(struct.pack(">H", id) for id in allowed))
    has_static = not pattern.startswith("NN")
    # On P-256 a private key must be below the group's order; these are.
    ce, se, cs, ss = (fixed(f"native {name} {what}") for what in ("ce", "se", "cs", "ss"))
    place = {"NN": 0, "KK": 0, "IK": 1, "XX": 3}[pattern[:2]]
    client = noise.Side(name, True, prologue, {place: psk}, cs, ce, noise.public(curve, ss))
    server = noise.Side(name, False, prologue, {place: psk}, ss, se, noise.public(curve, cs))
    out = dict(suite=suite, noise_name=name, channel_id=channel_id, psk_hex=psk.hex(), init_expires_s=init_expires_s,
               audience=audience, issuer=issuer, allowed_suites=allowed, prologue_hex=prologue.hex(),
               client_static_hex=cs.hex() if has_static else "", server_static_hex=ss.hex() if has_static else "",
               client_ephemeral_hex=ce.hex(), server_ephemeral_hex=se.hex(),
               kem_private_hex="", kem_ciphertext_hex="", kem_secret_hex="", rekey_after_records=3, pad_to=0)
    payload = ciphertext = b""
    if hybrid:
        d, z = fixed("kem d"), fixed("kem z")
        payload, kem_private = kem.keys(d, z)
        ciphertext, secret = kem.encapsulate(payload, fixed("kem m"))
        other = mlkem.MLKEM768PrivateKey.from_seed_bytes(d + z)
        assert other.public_key().public_bytes_raw() == payload and other.decapsulate(ciphertext) == secret
        second = hmac256(secret, b"sealway-channel-v1 ML-KEM-768", hashlib.sha256(payload + ciphertext).digest())
        client.psks[2] = server.psks[2] = second
        out |= dict(kem_private_hex=kem_private.hex(), kem_ciphertext_hex=ciphertext.hex(), kem_secret_hex=secret.hex())
    sent = []
    for kind in range(1, 4):
        if not client.messages:
            break
        writer, reader = (client, server) if kind % 2 else (server, client)
        message = writer.write(payload if kind == 1 else b"")
        assert reader.read(message) == (payload if kind == 1 else b"")
        sender = "client" if kind % 2 else "server"
        sent.append(dict(sender=sender, message_hex=frame(b"SWNH", kind, (ciphertext if kind == 2 else b"") + message).hex()))
    keys = client.split()
    assert keys == server.split()
    c2s, s2c = NativeDirection(cipher, keys[0], 0, 3, 0), NativeDirection(cipher, keys[1], 1, 3, 0)
    # Who read the last message proves its keys by a ping.
    talk = [("client" if sent[-1]["sender"] == "server" else "server", "ping", number(0))] + NATIVE_TALK
    return out | dict(messages=sent, client_key_hex=keys[0].hex(), server_key_hex=keys[1].hex(), records=[
        dict(sender=sender, kind=kind, content_hex=content.hex(),
             message_hex=(c2s if sender == "client" else s2c).record(kind, content).hex()) for sender, kind, content in talk])


def suites():
    for number, (plain, hybrid) in enumerate([("NNpsk0", "NNpsk0+psk2"), ("KKpsk0", "KKpsk0+psk2"), ("IKpsk1", "IKpsk1+psk2"),
                                              ("XXpsk3", "XXpsk2+psk3")]):
        for bits in range(8):
            curve, cipher = "P256" if bits & 2 else "25519", "ChaChaPoly" if bits & 1 else "AESGCM"
            yield 0x100 | number << 4 | bits, f"Noise_{hybrid if bits & 4 else plain}_{curve}_{cipher}_SHA256"


def add_all(add):
    add_v1(add)
    add_published_noise(add)
    for suite, name in suites():
        add("channel-native", "native-" + name.split("_", 1)[1], "A native channel from its first message to its close.",
            native(suite, name))
