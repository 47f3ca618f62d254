/** The client's side of an init and of a renewal of wire 3 (`spec/session-3.md`, Init). */
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, equal, latin1, wipe } from "../../wire/bytes.js";
import { SealwayError } from "../../wire/error.js";
import { algorithmOf, isAccepted, type SignatureAlgorithm, verify } from "./algorithm.js";
import type { Seal } from "./call.js";
import { SessionKeys, schedule } from "./keys.js";
import {
  encodeInitRequest,
  type InitAnswer,
  type InitRequest,
  initHashInput,
  parseInitAnswer,
  type SignedAnswer,
  signedMessage,
  transcript,
} from "./message.js";
import { chosenSuite, clientAgree, clientShare, type ShareKeys, type Suite } from "./suite.js";

/** A session as its client has it. */
export interface ClientSession extends Seal {
  readonly clientId: string;
  readonly keys: SessionKeys;
  /** The agreement, all of it under the service's signature. */
  readonly agreed: InitAnswer;
}

/** The offer of a client. */
export interface Offer {
  readonly suite: Suite;
  readonly suites: readonly Suite[];
  readonly clientId: string;
  readonly ttlSec?: number | undefined;
  readonly pinnedKeyIds: readonly string[];
  readonly signatureAlgorithms?: readonly SignatureAlgorithm[] | undefined;
  /** The value of `Authorization` as it is sent, which a renewal has none of. */
  readonly authorization?: string | undefined;
  /** A DPoP proof. */
  readonly proof?: string | undefined;
}

/** Finds the public key of a trusted identity key by its id. */
export type TrustedKey = (keyId: string) => Uint8Array | undefined;

/** An init that was begun; good for one answer. */
export class ClientInit {
  readonly #provider: Provider;
  #request: InitRequest;
  readonly #authorization: string | undefined;
  readonly #keys: ShareKeys;
  readonly #suite: Suite;
  readonly #old: ClientSession | undefined;

  /** `keys` are drawn for the suite of `offer`; `old` is the session to renew. */
  constructor(provider: Provider, offer: Offer, keys: ShareKeys, old?: ClientSession) {
    this.#provider = provider;
    this.#keys = keys;
    this.#suite = offer.suite;
    this.#old = old;
    this.#authorization = offer.authorization;
    this.#request = { ...offer, share: clientShare(offer.suite, keys) };
  }

  /** The body to send. */
  body(): Bytes {
    return encodeInitRequest(this.#request);
  }

  /** Adds a DPoP proof, made for {@link initHash}, before the body is sent. */
  prove(proof: string): void {
    this.#request = { ...this.#request, proof };
  }

  /** Returns the claim `init_hash` of a DPoP proof, before base64url. */
  initHash(): Promise<Bytes> {
    return this.#provider.sha256(initHashInput(this.#request));
  }

  /**
   * The key that an answer claims to be signed by, and what it says; nothing of it is proven yet.
   *
   * @throws {SealwayError} `answer_mismatch`, `suite_downgraded`.
   */
  claimed(status: number, body: Uint8Array): SignedAnswer {
    const signed = parseInitAnswer(status, body);
    const { answer } = signed;
    if (answer.suite !== this.#suite) {
      throw new SealwayError("answer_mismatch", "the answer is of another suite");
    }
    if (chosenSuite(this.#request.suites, answer.suites) !== answer.suite) {
      throw new SealwayError("suite_downgraded", "the suite is not the first of both sides");
    }
    return signed;
  }

  /**
   * Takes the answer.
   *
   * @throws {SealwayError} `answer_mismatch`, `suite_downgraded`, `key_untrusted`, `signature_invalid`,
   * `public_key_invalid`, `unconfirmed`, in this order.
   */
  async finish(status: number, body: Uint8Array, trusted: TrustedKey): Promise<ClientSession> {
    const provider = this.#provider;
    const { answer, signature, confirm } = this.claimed(status, body);
    const key = trusted(answer.keyId);
    const { pinnedKeyIds, signatureAlgorithms: accepted } = this.#request;
    if (key === undefined || !isAccepted(algorithmOf(key), accepted, pinnedKeyIds.length > 0)) {
      throw new SealwayError("key_untrusted", "the identity key is not trusted");
    }
    const credential =
      this.#authorization === undefined
        ? new Uint8Array()
        : await provider.sha256(latin1(this.#authorization));
    const th = await provider.sha256(transcript(this.#request, credential, answer, this.#old?.id));
    if (!(await verify(provider, key, signedMessage(th), signature))) {
      throw new SealwayError("signature_invalid", "the answer is not signed by its key");
    }
    const secret = await clientAgree(this.#suite, answer.share, this.#keys);
    const exporter = await this.#old?.keys.exporter();
    const prk = await schedule(provider, th, secret, exporter);
    wipe(secret, exporter ?? new Uint8Array());
    const keys = await SessionKeys.of(provider, prk);
    wipe(prk);
    if (!equal(await keys.confirm(provider, th), confirm)) {
      throw new SealwayError("unconfirmed", "the server has other keys");
    }
    return { wire: 3, id: answer.sessionId, clientId: this.#request.clientId, keys, agreed: answer };
  }
}
