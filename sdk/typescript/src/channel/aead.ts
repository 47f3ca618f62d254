import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { NodeAeadKey } from "../crypto/node.js";
import type { AeadKey } from "../crypto/provider.js";
import { webProvider } from "../crypto/web.js";
import type { Bytes } from "./encoding.js";
import { isNode } from "./platform.js";
import type { Cipher } from "./suite.js";

/** Length of a tag, in bytes. */
export const TAG_LENGTH = 16;

/** A key of an authenticated cipher, with nonces of 12 bytes, for many messages. */
export interface Aead extends AeadKey {
  /** Forgets the key, where it is not the platform that holds it. */
  wipe(): void;
}

/**
 * The cipher under a key of 32 bytes, which it copies: Node's own; in browsers WebCrypto's AES-GCM, and ChaCha20-Poly1305 of
 * @noble/ciphers.
 */
export function aead(cipher: Cipher, key: Bytes): Aead {
  if (!isNode) return browserAead(cipher, key);
  return new NodeAeadKey(key, cipher === "AESGCM" ? "aes-256-gcm" : "chacha20-poly1305");
}

/** As `aead`, with what browsers have. */
export function browserAead(cipher: Cipher, key: Bytes): Aead {
  return cipher === "AESGCM" ? new WebGcm(key) : new ChaCha(key);
}

/** WebCrypto's key, which can be used before the platform has read it. */
class WebGcm implements Aead {
  #key: Promise<AeadKey> | AeadKey;

  constructor(key: Bytes) {
    // The caller may wipe its own before the platform has read it.
    const copy = key.slice();
    const imported = webProvider.aeadKey(copy);
    imported.then(
      (ready) => {
        copy.fill(0);
        this.#key = ready;
      },
      () => copy.fill(0),
    );
    this.#key = imported;
  }

  async seal(iv: Bytes, plaintext: Bytes, additional: Bytes): Promise<Bytes> {
    const key = this.#key instanceof Promise ? await this.#key : this.#key;
    return key.seal(iv, plaintext, additional);
  }

  async open(iv: Bytes, sealed: Bytes, additional: Bytes): Promise<Bytes | undefined> {
    const key = this.#key instanceof Promise ? await this.#key : this.#key;
    return key.open(iv, sealed, additional);
  }

  wipe(): void {
    // The platform holds the key; there is nothing here to overwrite.
  }
}

class ChaCha implements Aead {
  #key: Bytes;

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
    // A key of no length seals nothing.
    this.#key = new Uint8Array();
  }
}
