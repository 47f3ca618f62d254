import type { KeyObject } from "node:crypto";
import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { type Bytes, concat } from "./encoding.js";
import { nodeCrypto } from "./platform.js";
import type { Cipher } from "./suite.js";

/** Length of a tag, in bytes. */
export const TAG_LENGTH = 16;

/** A key of an authenticated cipher, with nonces of 12 bytes. */
export interface Aead {
  /** The ciphertext and its tag. */
  seal(nonce: Bytes, plaintext: Bytes, additional: Bytes): Promise<Bytes>;
  /** The plaintext; nothing where the tag does not fit. */
  open(nonce: Bytes, sealed: Bytes, additional: Bytes): Promise<Bytes | undefined>;
  /** Forgets the key. */
  wipe(): void;
}

/**
 * The cipher under a key of 32 bytes, which it copies: Node's own; in browsers WebCrypto's AES-GCM, and ChaCha20-Poly1305 of
 * @noble/ciphers.
 */
export function aead(cipher: Cipher, key: Bytes): Aead {
  return nodeCrypto === undefined ? browserAead(cipher, key) : new NodeAead(nodeCrypto, cipher, key);
}

/** As `aead`, with what browsers have. */
export function browserAead(cipher: Cipher, key: Bytes): Aead {
  return cipher === "AESGCM" ? new PlatformGcm(key) : new ChaCha(key);
}

class NodeAead implements Aead {
  readonly #crypto: NonNullable<typeof nodeCrypto>;
  readonly #key: KeyObject;
  readonly #name: "aes-256-gcm";

  constructor(crypto: NonNullable<typeof nodeCrypto>, cipher: Cipher, key: Bytes) {
    this.#crypto = crypto;
    this.#key = crypto.createSecretKey(key);
    // Both ciphers have the same calls; the types know one of them only without the length of a plaintext.
    this.#name = (cipher === "AESGCM" ? "aes-256-gcm" : "chacha20-poly1305") as "aes-256-gcm";
  }

  async seal(nonce: Bytes, plaintext: Bytes, additional: Bytes): Promise<Bytes> {
    const cipher = this.#crypto.createCipheriv(this.#name, this.#key, nonce, { authTagLength: TAG_LENGTH });
    cipher.setAAD(additional);
    const ciphertext = cipher.update(plaintext);
    cipher.final();
    return concat(ciphertext, cipher.getAuthTag());
  }

  async open(nonce: Bytes, sealed: Bytes, additional: Bytes): Promise<Bytes | undefined> {
    if (sealed.length < TAG_LENGTH) return undefined;
    const end = sealed.length - TAG_LENGTH;
    const decipher = this.#crypto.createDecipheriv(this.#name, this.#key, nonce, {
      authTagLength: TAG_LENGTH,
    });
    decipher.setAAD(additional);
    decipher.setAuthTag(sealed.subarray(end));
    const opened = decipher.update(sealed.subarray(0, end));
    try {
      decipher.final();
    } catch {
      opened.fill(0);
      return undefined;
    }
    // A small buffer lies in a pool that others share.
    return opened.length < 4096
      ? new Uint8Array(opened)
      : new Uint8Array(opened.buffer as ArrayBuffer, opened.byteOffset, opened.length);
  }

  wipe(): void {
    // The platform holds the key; there is nothing here to overwrite.
  }
}

class PlatformGcm implements Aead {
  #key: Promise<CryptoKey> | CryptoKey;

  constructor(key: Bytes) {
    // The caller may wipe its own before the platform has read it.
    const copy = key.slice();
    const imported = crypto.subtle.importKey("raw", copy, "AES-GCM", false, ["encrypt", "decrypt"]);
    imported.then(
      (ready) => {
        copy.fill(0);
        this.#key = ready;
      },
      () => copy.fill(0),
    );
    this.#key = imported;
  }

  async seal(iv: Bytes, plaintext: Bytes, additionalData: Bytes): Promise<Bytes> {
    const key = this.#key instanceof Promise ? await this.#key : this.#key;
    return new Uint8Array(
      await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, key, plaintext),
    );
  }

  async open(iv: Bytes, sealed: Bytes, additionalData: Bytes): Promise<Bytes | undefined> {
    const key = this.#key instanceof Promise ? await this.#key : this.#key;
    try {
      return new Uint8Array(
        await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData }, key, sealed),
      );
    } catch {
      return undefined;
    }
  }

  wipe(): void {
    // The platform holds the key; there is nothing here to overwrite.
  }
}

class ChaCha implements Aead {
  readonly #key: Bytes;

  constructor(key: Bytes) {
    this.#key = key.slice();
  }

  async seal(nonce: Bytes, plaintext: Bytes, additional: Bytes): Promise<Bytes> {
    return chacha20poly1305(this.#key, nonce, additional).encrypt(plaintext) as Bytes;
  }

  async open(nonce: Bytes, sealed: Bytes, additional: Bytes): Promise<Bytes | undefined> {
    try {
      return chacha20poly1305(this.#key, nonce, additional).decrypt(sealed) as Bytes;
    } catch {
      return undefined;
    }
  }

  wipe(): void {
    this.#key.fill(0);
  }
}
