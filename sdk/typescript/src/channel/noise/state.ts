/** Noise, revision 34, as much as channels use: four patterns, their pre-shared keys, SHA-256. */
import { type Aead, aead, TAG_LENGTH } from "../aead.js";
import { compress, decompress, type KeyPair } from "../agreement.js";
import { type Bytes, concat, u64, utf8 } from "../encoding.js";
import { ofHandshake } from "../error.js";
import type { Role } from "../handshake.js";
import { noiseHkdf, sha256 } from "../hash.js";
import { type Cipher, type Curve, publicLength } from "../suite.js";

type Token = "e" | "s" | "ee" | "es" | "se" | "ss" | `psk${number}`;

const PATTERNS: Readonly<Record<string, { before: readonly ("cs" | "ss")[]; messages: readonly Token[][] }>> =
  {
    NN: { before: [], messages: [["e"], ["e", "ee"]] },
    KK: {
      before: ["cs", "ss"],
      messages: [
        ["e", "es", "ss"],
        ["e", "ee", "se"],
      ],
    },
    IK: {
      before: ["ss"],
      messages: [
        ["e", "es", "s", "ss"],
        ["e", "ee", "se"],
      ],
    },
    XX: { before: [], messages: [["e"], ["e", "ee", "s", "es"], ["s", "se"]] },
  };

/** Keys of one side. */
export interface NoiseInputs {
  /** The protocol's name: `Noise_XXpsk3_25519_AESGCM_SHA256`. */
  readonly name: string;
  readonly role: Role;
  readonly prologue: Bytes;
  /** Pre-shared keys by place; some may be set later. */
  readonly psks: Map<number, Bytes>;
  readonly ephemeral: KeyPair;
  readonly ownStatic?: KeyPair | undefined;
  /** The peer's static key, where it is known beforehand. */
  readonly peerStatic?: Bytes | undefined;
}

/** The symmetric half: what was said so far, and the keys that follow from it. */
class Symmetric {
  hash: Bytes;
  readonly #cipher: Cipher;
  #chaining: Bytes;
  #key: Aead | undefined;
  #nonce = 0n;

  constructor(name: string, cipher: Cipher) {
    const bytes = utf8(name);
    this.hash = bytes.length <= 32 ? concat(bytes, new Uint8Array(32 - bytes.length)) : sha256(bytes);
    this.#chaining = this.hash.slice();
    this.#cipher = cipher;
  }

  get hasKey(): boolean {
    return this.#key !== undefined;
  }

  mixHash(data: Bytes): void {
    this.hash = sha256(this.hash, data);
  }

  mixKey(material: Bytes): void {
    const [chaining, key] = noiseHkdf(this.#chaining, material, 2);
    this.#turn(chaining!, key!);
  }

  mixKeyAndHash(material: Bytes): void {
    const [chaining, mixed, key] = noiseHkdf(this.#chaining, material, 3);
    this.mixHash(mixed!);
    this.#turn(chaining!, key!);
  }

  async seal(data: Bytes): Promise<Bytes> {
    const out = this.#key === undefined ? data : await this.#key.seal(this.#iv(), data, this.hash);
    this.mixHash(out);
    return out;
  }

  async open(data: Bytes): Promise<Bytes> {
    const plain = this.#key === undefined ? data : await this.#key.open(this.#iv(), data, this.hash);
    if (plain === undefined)
      throw ofHandshake("handshake_unauthentic", "a message that the peer did not make");
    this.mixHash(data);
    return plain;
  }

  /** The initiator's key and the responder's. */
  split(): [Bytes, Bytes] {
    const [client, server] = noiseHkdf(this.#chaining, new Uint8Array(0), 2);
    this.#chaining.fill(0);
    this.#key?.wipe();
    return [client!, server!];
  }

  #turn(chaining: Bytes, key: Bytes): void {
    this.#chaining.fill(0);
    this.#chaining = chaining;
    this.#key?.wipe();
    this.#key = aead(this.#cipher, key);
    key.fill(0);
    this.#nonce = 0n;
  }

  #iv(): Bytes {
    const number = u64(this.#nonce++);
    // ChaChaPoly's number is little-endian.
    return concat(new Uint8Array(4), this.#cipher === "AESGCM" ? number : number.reverse());
  }
}

/** One side of a handshake. */
export class NoiseState {
  readonly #inputs: NoiseInputs;
  readonly #symmetric: Symmetric;
  readonly #curve: Curve;
  readonly #messages: Token[][];
  #peerEphemeral: Bytes | undefined;
  #peerStatic: Bytes | undefined;

  constructor(inputs: NoiseInputs) {
    const [, pattern, curve, cipher] = inputs.name.split("_") as [string, string, Curve, Cipher];
    const { before, messages } = PATTERNS[pattern.slice(0, 2)]!;
    this.#inputs = inputs;
    this.#curve = curve;
    this.#messages = messages.map((tokens) => [...tokens]);
    for (const modifier of pattern.slice(2).split("+")) {
      const place = Number(modifier.slice(3));
      if (place === 0) this.#messages[0]!.unshift("psk0");
      else this.#messages[place - 1]!.push(`psk${place}`);
    }
    this.#peerStatic = inputs.peerStatic;
    this.#symmetric = new Symmetric(inputs.name, cipher);
    this.#symmetric.mixHash(inputs.prologue);
    for (const key of before) {
      const isOwn = (key === "cs") === (inputs.role === "client");
      this.#symmetric.mixHash(isOwn ? wire(this.#own(inputs.ownStatic)) : this.#known(this.#peerStatic));
    }
  }

  get isFinished(): boolean {
    return this.#messages.length === 0;
  }

  /** The peer's static key, known beforehand or shown. */
  get peerStatic(): Bytes | undefined {
    return this.#peerStatic;
  }

  get handshakeHash(): Bytes {
    return this.#symmetric.hash;
  }

  /** A message of this side's. */
  async write(payload: Bytes): Promise<Bytes> {
    const parts: Bytes[] = [];
    for (const token of this.#next()) {
      if (token === "e") {
        const key = wire(this.#inputs.ephemeral);
        parts.push(key);
        this.#symmetric.mixHash(key);
        this.#symmetric.mixKey(key);
      } else if (token === "s")
        parts.push(await this.#symmetric.seal(wire(this.#own(this.#inputs.ownStatic))));
      else await this.#mix(token);
    }
    parts.push(await this.#symmetric.seal(payload));
    return concat(...parts);
  }

  /**
   * A message of the peer's: its payload.
   * @throws ChannelError `handshake_frame_invalid` where bytes are missing, `handshake_unauthentic`, `peer_key_invalid`.
   */
  async read(message: Bytes): Promise<Bytes> {
    let rest = message;
    const take = (length: number): Bytes => {
      if (rest.length < length)
        throw ofHandshake("handshake_frame_invalid", "a Noise message that is cut off");
      const taken = rest.slice(0, length);
      rest = rest.subarray(length);
      return taken;
    };
    const length = publicLength(this.#curve);
    for (const token of this.#next()) {
      if (token === "e") {
        this.#peerEphemeral = take(length);
        this.#symmetric.mixHash(this.#peerEphemeral);
        this.#symmetric.mixKey(this.#peerEphemeral);
      } else if (token === "s") {
        const sealed = take(length + (this.#symmetric.hasKey ? TAG_LENGTH : 0));
        this.#peerStatic = await this.#symmetric.open(sealed);
      } else await this.#mix(token);
    }
    if (this.#symmetric.hasKey && rest.length < TAG_LENGTH) take(TAG_LENGTH);
    return await this.#symmetric.open(rest.slice());
  }

  /** The client's key and the server's, at the end. */
  split(): [Bytes, Bytes] {
    return this.#symmetric.split();
  }

  #next(): Token[] {
    const tokens = this.#messages.shift();
    if (tokens === undefined) throw ofHandshake("handshake_state", "a message after the last");
    return tokens;
  }

  async #mix(token: Token): Promise<void> {
    if (token.startsWith("psk")) {
      const psk = this.#inputs.psks.get(Number(token.slice(3)));
      if (psk === undefined) throw ofHandshake("handshake_state", "a pre-shared key is not there yet");
      this.#symmetric.mixKeyAndHash(psk);
      return;
    }
    // The first letter is the initiator's key.
    const [first, second] = token as "ee" | "es" | "se" | "ss";
    const [own, peer] = this.#inputs.role === "client" ? [first, second] : [second, first];
    const pair = own === "s" ? this.#own(this.#inputs.ownStatic) : this.#inputs.ephemeral;
    const theirs = this.#known(peer === "s" ? this.#peerStatic : this.#peerEphemeral);
    const point = this.#curve === "P256" ? decompress(theirs) : theirs;
    if (point === undefined) throw ofHandshake("peer_key_invalid", "the peer's public key is none");
    const shared = await pair.agree(point);
    this.#symmetric.mixKey(shared);
    shared.fill(0);
  }

  #own(pair: KeyPair | undefined): KeyPair {
    if (pair === undefined) throw ofHandshake("setting_invalid", "the setting localStatic is absent");
    return pair;
  }

  #known(key: Bytes | undefined): Bytes {
    if (key === undefined) throw ofHandshake("setting_invalid", "the setting peerStatic is absent");
    return key;
  }
}

/** A public key as Noise sends it. */
export function wire(pair: KeyPair): Bytes {
  return pair.curve === "P256" ? compress(pair.publicKey) : pair.publicKey;
}
