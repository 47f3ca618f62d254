import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import type { Bytes } from "./encoding.js";
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

/** The cipher under a key of 32 bytes, which it copies. AES-GCM is the platform's (WebCrypto). */
export function aead(cipher: Cipher, key: Bytes): Aead {
  return cipher === "AESGCM" ? new PlatformGcm(key) : new ChaCha(key);
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
