import type { BreakerState } from "./breaker.js";
import { type BrokerOptions, Caller, type CallOptions } from "./call.js";
import type { Input, Message } from "./schema.js";

const BROKER = "sealway.broker.v1.Broker";
const KEYS = "sealway.broker.v1.Keys";

/** Health of a broker. */
export type Health = "UNKNOWN" | "SERVING" | "NOT_SERVING";

/**
 * A client of one broker, on Node: its cryptography under named profiles, and the keys of its store. It connects when it is
 * first used. Every call may throw a `BrokerError`. What the fields mean, and their bounds: SPEC broker.md
 */
export class BrokerClient {
  readonly #caller: Caller;

  /** @throws {TypeError} for a wrong option, with the option's name. */
  constructor(options: BrokerOptions) {
    this.#caller = new Caller(options);
  }

  /** Digests of a batch. */
  hash(request: Input<"HashRequest">, options: CallOptions = {}): Promise<Message<"HashResponse">> {
    return this.#ask(BROKER, "Hash", request, options);
  }

  /** A certificate by a CA's key of the store. */
  signCertificate(
    request: Input<"SignCertificateRequest">,
    options: CallOptions = {},
  ): Promise<Message<"SignCertificateResponse">> {
    return this.#ask(BROKER, "SignCertificate", request, options);
  }

  /** Seals a batch. */
  encrypt(request: Input<"EncryptRequest">, options: CallOptions = {}): Promise<Message<"EncryptResponse">> {
    return this.#ask(BROKER, "Encrypt", request, options);
  }

  /** Opens a batch; one that does not open has a `refusal`. */
  decrypt(request: Input<"DecryptRequest">, options: CallOptions = {}): Promise<Message<"DecryptResponse">> {
    return this.#ask(BROKER, "Decrypt", request, options);
  }

  /** Opens, and seals anew under the key's current version. */
  rewrap(request: Input<"RewrapRequest">, options: CallOptions = {}): Promise<Message<"RewrapResponse">> {
    return this.#ask(BROKER, "Rewrap", request, options);
  }

  /** Signatures over a batch. */
  sign(request: Input<"SignRequest">, options: CallOptions = {}): Promise<Message<"SignResponse">> {
    return this.#ask(BROKER, "Sign", request, options);
  }

  /** Verifies signatures. */
  verify(request: Input<"VerifyRequest">, options: CallOptions = {}): Promise<Message<"VerifyResponse">> {
    return this.#ask(BROKER, "Verify", request, options);
  }

  /** Message authentication codes of a batch. */
  mac(request: Input<"MacRequest">, options: CallOptions = {}): Promise<Message<"MacResponse">> {
    return this.#ask(BROKER, "Mac", request, options);
  }

  /** Verifies message authentication codes. */
  verifyMac(
    request: Input<"VerifyMacRequest">,
    options: CallOptions = {},
  ): Promise<Message<"VerifyMacResponse">> {
    return this.#ask(BROKER, "VerifyMac", request, options);
  }

  /** Keys derived from one of the store. */
  derive(request: Input<"DeriveRequest">, options: CallOptions = {}): Promise<Message<"DeriveResponse">> {
    return this.#ask(BROKER, "Derive", request, options);
  }

  /** Random bytes. */
  random(request: Input<"RandomRequest">, options: CallOptions = {}): Promise<Message<"RandomResponse">> {
    return this.#ask(BROKER, "Random", request, options);
  }

  /** Shared secrets for a key of the store, or for a public key. */
  encapsulate(
    request: Input<"EncapsulateRequest">,
    options: CallOptions = {},
  ): Promise<Message<"EncapsulateResponse">> {
    return this.#ask(BROKER, "Encapsulate", request, options);
  }

  /** The shared secrets of ciphertexts. */
  decapsulate(
    request: Input<"DecapsulateRequest">,
    options: CallOptions = {},
  ): Promise<Message<"DecapsulateResponse">> {
    return this.#ask(BROKER, "Decapsulate", request, options);
  }

  /** Content keys of JWE. An encrypted key that does not decrypt gives another content key, and no error. */
  unwrap(request: Input<"UnwrapRequest">, options: CallOptions = {}): Promise<Message<"UnwrapResponse">> {
    return this.#ask(BROKER, "Unwrap", request, options);
  }

  /** Returns the version of the broker and the profiles that the caller may use. */
  information(options: CallOptions = {}): Promise<Message<"InformationResponse">> {
    return this.#ask(BROKER, "Information", {}, options);
  }

  /** Makes a key. It is sent again only where the first attempt surely was not sent. */
  generateKey(request: Input<"GenerateRequest">, options: CallOptions = {}): Promise<Message<"KeyResponse">> {
    return this.#ask(KEYS, "Generate", request, options);
  }

  /** Brings a key in. It is sent again only where the first attempt surely was not sent. */
  importKey(request: Input<"ImportRequest">, options: CallOptions = {}): Promise<Message<"KeyResponse">> {
    return this.#ask(KEYS, "Import", request, options);
  }

  /** Keys of the store, a page at a time. */
  listKeys(request: Input<"ListRequest"> = {}, options: CallOptions = {}): Promise<Message<"ListResponse">> {
    return this.#ask(KEYS, "List", request, options);
  }

  /** Adds a version to a key. It is sent again only where the first attempt surely was not sent. */
  rotateKey(request: Input<"RotateRequest">, options: CallOptions = {}): Promise<Message<"KeyResponse">> {
    return this.#ask(KEYS, "Rotate", request, options);
  }

  /** Has a version, or all of them, used no more. */
  disableKey(request: Input<"DisableRequest">, options: CallOptions = {}): Promise<Message<"KeyResponse">> {
    return this.#ask(KEYS, "Disable", request, options);
  }

  /** Has a version used again. */
  enableKey(request: Input<"EnableRequest">, options: CallOptions = {}): Promise<Message<"KeyResponse">> {
    return this.#ask(KEYS, "Enable", request, options);
  }

  /** The public half of a key. */
  publicKey(
    request: Input<"PublicKeyRequest">,
    options: CallOptions = {},
  ): Promise<Message<"PublicKeyResponse">> {
    return this.#ask(KEYS, "PublicKey", request, options);
  }

  /** Returns the health of the broker. */
  async health(options: CallOptions = {}): Promise<Health> {
    const answer = await this.#ask<{ status: Health }>(
      "grpc.health.v1.Health",
      "Check",
      { service: "" },
      options,
    );
    return answer.status;
  }

  /** Has a broker that was started for it (`--dev`) time its operations: JSON. */
  async benchmark(options: CallOptions = {}): Promise<string> {
    const service = "CryptoBroker.CryptoGrpcDev";
    const answer = await this.#ask<{ benchmarkResults: string }>(service, "Benchmark", {}, options);
    return answer.benchmarkResults;
  }

  /** Returns the state of the breaker. */
  get breakerState(): BreakerState {
    return this.#caller.breakerState;
  }

  /** Ends the connection. */
  close(): void {
    this.#caller.close();
  }

  async #ask<A>(service: string, operation: string, request: object, options: CallOptions): Promise<A> {
    return (await this.#caller.call(service, operation, request, options)) as A;
  }
}
