"""ML-DSA-65 and ML-DSA-87, the deterministic variant, straight from FIPS 204: the library signs with a random number, and
vectors may not change. For vectors alone: it is slow, and its time depends on its secrets. What it signs, the library verifies."""

import hashlib
from dataclasses import dataclass
from functools import cache

Q, N, D = 8_380_417, 256, 13
GAMMA1, GAMMA2, Z_BITS = 1 << 19, (Q - 1) // 32, 20


@dataclass(frozen=True)
class Set:
    """A parameter set of FIPS 204 section 4: the two of this page share what is above."""

    k: int
    l: int
    eta: int
    tau: int
    omega: int
    challenge: int  # bytes of c~

    @property
    def beta(self) -> int:
        return self.tau * self.eta


SETS = {"ML-DSA-65": Set(6, 5, 4, 49, 55, 48), "ML-DSA-87": Set(8, 7, 2, 60, 75, 64)}
ZETAS = [pow(1753, int(f"{i:08b}"[::-1], 2), Q) for i in range(N)]


def _h(data: bytes, length: int) -> bytes:
    return hashlib.shake_256(data).digest(length)


def _ntt(w):
    w, m, length = list(w), 0, 128
    while length:
        for start in range(0, N, 2 * length):
            m += 1
            zeta = ZETAS[m]
            for j in range(start, start + length):
                t = zeta * w[j + length] % Q
                w[j + length], w[j] = (w[j] - t) % Q, (w[j] + t) % Q
        length //= 2
    return w


def _inverse(w):
    w, m, length = list(w), N, 1
    while length < N:
        for start in range(0, N, 2 * length):
            m -= 1
            zeta = Q - ZETAS[m]
            for j in range(start, start + length):
                t = w[j]
                w[j], w[j + length] = (t + w[j + length]) % Q, zeta * (t - w[j + length]) % Q
        length *= 2
    return [value * 8_347_681 % Q for value in w]


def _times(f, g):
    return [a * b % Q for a, b in zip(f, g)]


def _plus(f, g):
    return [(a + b) % Q for a, b in zip(f, g)]


def _minus(f, g):
    return [(a - b) % Q for a, b in zip(f, g)]


def _product(matrix, vector):
    """The inverse transform of a matrix times a vector, both transformed."""
    return [_inverse([sum(parts) % Q for parts in zip(*(_times(a, v) for a, v in zip(row, vector)))]) for row in matrix]


def _centred(value: int) -> int:
    return value - Q if value > Q // 2 else value


def _pack(values, bits: int) -> bytes:
    return sum(value << i * bits for i, value in enumerate(values)).to_bytes(N * bits // 8, "little")


def _uniform(seed: bytes):
    """Algorithm 30."""
    stream = hashlib.shake_128(seed).digest(3 * 512)
    found = (int.from_bytes(stream[at:at + 3], "little") & 0x7FFFFF for at in range(0, len(stream), 3))
    out = [value for value in found if value < Q]
    assert len(out) >= N
    return out[:N]


def _small(seed: bytes, eta: int):
    """Algorithm 31."""
    out = []
    for byte in _h(seed, 512):
        for half in (byte & 15, byte >> 4):
            if eta == 2 and half < 15:
                out.append((2 - half % 5) % Q)
            elif eta == 4 and half < 9:
                out.append((4 - half) % Q)
    assert len(out) >= N
    return out[:N]


def _ball(seed: bytes, tau: int):
    """Algorithm 29."""
    stream = _h(seed, 8 + 512)
    signs, at, c = int.from_bytes(stream[:8], "little"), 8, [0] * N
    for n, i in enumerate(range(N - tau, N)):
        while stream[at] > i:
            at += 1
        j, at = stream[at], at + 1
        c[i], c[j] = c[j], Q - 1 if signs >> n & 1 else 1
    return c


def _decompose(r: int) -> tuple[int, int]:
    """Algorithm 36: the high bits, and the low ones with their sign."""
    low = r % (2 * GAMMA2)
    low -= 2 * GAMMA2 if low > GAMMA2 else 0
    return (0, low - 1) if r - low == Q - 1 else ((r - low) // (2 * GAMMA2), low)


@cache
def _expand(alg: str, seed: bytes):
    """Algorithm 6, and what signing makes of the private key."""
    p = SETS[alg]
    made = _h(seed + bytes([p.k, p.l]), 128)
    rho, rho2, key = made[:32], made[32:96], made[96:]
    matrix = [[_uniform(rho + bytes([s, r])) for s in range(p.l)] for r in range(p.k)]
    small = [_small(rho2 + n.to_bytes(2, "little"), p.eta) for n in range(p.l + p.k)]
    s1, s2 = [_ntt(part) for part in small[:p.l]], small[p.l:]
    t = [_plus(row, s) for row, s in zip(_product(matrix, s1), s2)]
    t0 = [[(value + (1 << D - 1) - 1) % (1 << D) - (1 << D - 1) + 1 for value in row] for row in t]
    t1 = [[(value - low) >> D for value, low in zip(row, lows)] for row, lows in zip(t, t0)]
    public = rho + b"".join(_pack(row, 23 - D) for row in t1)
    return public, key, matrix, s1, [_ntt(part) for part in s2], [_ntt(part) for part in t0]


def public(alg: str, seed: bytes) -> bytes:
    return _expand(alg, seed)[0]


@cache
def sign(alg: str, seed: bytes, message: bytes, context: bytes = b"") -> bytes:
    """Algorithms 2 and 7, with `rnd` of zeros."""
    p = SETS[alg]
    public, key, matrix, s1, s2, t0 = _expand(alg, seed)
    mu = _h(_h(public, 64) + bytes([0, len(context)]) + context + message, 64)
    rho3, kappa = _h(key + bytes(32) + mu, 64), 0
    while True:
        masks = [int.from_bytes(_h(rho3 + (kappa + r).to_bytes(2, "little"), 32 * Z_BITS), "little") for r in range(p.l)]
        y = [[(GAMMA1 - (mask >> i * Z_BITS & (1 << Z_BITS) - 1)) % Q for i in range(N)] for mask in masks]
        kappa += p.l
        w = _product(matrix, [_ntt(part) for part in y])
        challenge = _h(mu + b"".join(_pack([_decompose(value)[0] for value in row], 4) for row in w), p.challenge)
        c = _ntt(_ball(challenge, p.tau))
        z = [[_centred(value) for value in _plus(part, _inverse(_times(c, s)))] for part, s in zip(y, s1)]
        if max(abs(value) for part in z for value in part) >= GAMMA1 - p.beta:
            continue
        rest = [_minus(row, _inverse(_times(c, s))) for row, s in zip(w, s2)]
        if max(abs(_decompose(value)[1]) for row in rest for value in row) >= GAMMA2 - p.beta:
            continue
        lost = [_inverse(_times(c, t)) for t in t0]
        hints = [[i for i in range(N) if _decompose(r[i])[0] != _decompose((r[i] + ct[i]) % Q)[0]] for r, ct in zip(rest, lost)]
        if max(abs(_centred(value)) for ct in lost for value in ct) >= GAMMA2 or sum(map(len, hints)) > p.omega:
            continue
        places, ends = b"".join(map(bytes, hints)), [sum(map(len, hints[:n + 1])) for n in range(p.k)]
        return (challenge + b"".join(_pack([GAMMA1 - value for value in part], Z_BITS) for part in z)
                + places.ljust(p.omega, b"\0") + bytes(ends))
