"""ML-KEM-768 and ML-KEM-1024, straight from FIPS 203: keys from seeds and ciphertexts from a message, so that nothing is drawn.
For vectors alone: it is slow, and its time depends on its secrets."""

import hashlib

Q, N, ETA = 3329, 256, 2
# By k, which names the parameter set: the bits of a coefficient of u and of v.
COMPRESSED = {3: (10, 4), 4: (11, 5)}


def _reversed(number: int) -> int:
    return int(f"{number:07b}"[::-1], 2)


ZETAS = [pow(17, _reversed(i), Q) for i in range(128)]
GAMMAS = [pow(17, 2 * _reversed(i) + 1, Q) for i in range(128)]


def _g(data: bytes):
    digest = hashlib.sha3_512(data).digest()
    return digest[:32], digest[32:]


def _ntt(f):
    f, i, length = list(f), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = ZETAS[i] * f[j + length] % Q
                f[j + length], f[j] = (f[j] - t) % Q, (f[j] + t) % Q
            i += 1
        length //= 2
    return f


def _inverse(f):
    f, i, length = list(f), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = f[j]
                f[j], f[j + length] = (t + f[j + length]) % Q, ZETAS[i] * (f[j + length] - t) % Q
            i -= 1
        length *= 2
    return [value * 3303 % Q for value in f]


def _times(f, g):
    out = [0] * N
    for i in range(128):
        a0, a1, b0, b1 = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
        out[2 * i], out[2 * i + 1] = (a0 * b0 + a1 * b1 * GAMMAS[i]) % Q, (a0 * b1 + a1 * b0) % Q
    return out


def _plus(f, g):
    return [(a + b) % Q for a, b in zip(f, g)]


def _uniform(seed: bytes):
    stream, out, at = hashlib.shake_128(seed).digest(3 * 1024), [], 0
    while len(out) < N:
        b0, b1, b2 = stream[at:at + 3]
        for value in (b0 + 256 * (b1 % 16), b1 // 16 + 16 * b2):
            if value < Q and len(out) < N:
                out.append(value)
        at += 3
    return out


def _small(seed: bytes, number: int):
    bits = int.from_bytes(hashlib.shake_256(seed + bytes([number])).digest(64 * ETA), "little")
    count = lambda at: sum(bits >> at + i & 1 for i in range(ETA))
    return [(count(2 * i * ETA) - count(2 * i * ETA + ETA)) % Q for i in range(N)]


def _pack(values, bits: int) -> bytes:
    return sum(value << i * bits for i, value in enumerate(values)).to_bytes(N * bits // 8, "little")


def _unpack(data: bytes, bits: int):
    number = int.from_bytes(data, "little")
    return [number >> i * bits & (1 << bits) - 1 for i in range(N)]


def _compress(values, bits: int):
    return [((value << bits) + Q // 2) // Q % (1 << bits) for value in values]


def _matrix(rho: bytes, k: int):
    return [[_uniform(rho + bytes([j, i])) for j in range(k)] for i in range(k)]


def keys(d: bytes, z: bytes, k: int = 3) -> tuple[bytes, bytes]:
    """Encapsulation and decapsulation key of the two seeds (algorithms 13 and 16)."""
    rho, sigma = _g(d + bytes([k]))
    a = _matrix(rho, k)
    s = [_ntt(_small(sigma, i)) for i in range(k)]
    e = [_ntt(_small(sigma, k + i)) for i in range(k)]
    public = b""
    for i in range(k):
        row = e[i]
        for j in range(k):
            row = _plus(row, _times(a[i][j], s[j]))
        public += _pack(row, 12)
    public += rho
    return public, b"".join(_pack(part, 12) for part in s) + public + hashlib.sha3_256(public).digest() + z


def encapsulate(public: bytes, message: bytes) -> tuple[bytes, bytes]:
    """Ciphertext and secret of a message (algorithms 14 and 17)."""
    k = len(public) // 384
    du, dv = COMPRESSED[k]
    secret, coins = _g(message + hashlib.sha3_256(public).digest())
    t = [_unpack(public[384 * i:384 * i + 384], 12) for i in range(k)]
    a = _matrix(public[384 * k:], k)
    y = [_ntt(_small(coins, i)) for i in range(k)]
    ciphertext = b""
    for i in range(k):
        column = [0] * N
        for j in range(k):
            column = _plus(column, _times(a[j][i], y[j]))
        ciphertext += _pack(_compress(_plus(_inverse(column), _small(coins, k + i)), du), du)
    inner = [0] * N
    for i in range(k):
        inner = _plus(inner, _times(t[i], y[i]))
    bits = [bit * ((Q + 1) // 2) for bit in _unpack(message, 1)]
    v = _plus(_plus(_inverse(inner), _small(coins, 2 * k)), bits)
    return ciphertext + _pack(_compress(v, dv), dv), secret
