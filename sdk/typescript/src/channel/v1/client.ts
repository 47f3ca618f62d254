import { type KeyPair, keyPair } from "../agreement.js";
import type { Bytes } from "../encoding.js";
import { ofHandshake } from "../error.js";
import { handshakeFrame, handshakePayload } from "../frame.js";
import type { Progress, Steps } from "../handshake.js";
import type { Opener, Sealer } from "../record.js";
import type { ChannelSettings, HandshakeRandoms } from "../settings.js";
import type { V1Suite } from "../suite.js";
import { ACK, encodeAck, encodeInit, INIT, type Init, isPublicKey, parseResp, RESP } from "./message.js";
import { V1Opener, V1Sealer } from "./record.js";
import { authTag, directions, transcriptHash } from "./schedule.js";

/** The client's side: Init out, Resp in, Ack out, and a ping in that proves the server. SPEC channel.md#v1-handshake */
export class V1Client implements Steps {
  readonly #settings: ChannelSettings;
  readonly #suite: V1Suite;
  readonly #randoms: HandshakeRandoms;
  #pair: KeyPair | undefined;
  #init: Init | undefined;
  #records: { readonly sealer: Sealer; readonly opener: Opener } | undefined;

  constructor(settings: ChannelSettings, suite: V1Suite, randoms: HandshakeRandoms) {
    this.#settings = settings;
    this.#suite = suite;
    this.#randoms = randoms;
  }

  async begin(): Promise<Bytes> {
    const { channelId, features } = this.#settings;
    this.#pair = await keyPair(this.#suite.curve, this.#randoms.ephemeral.reveal());
    this.#randoms.ephemeral.wipe();
    this.#init = {
      channelId,
      role: 1,
      version: 1,
      suite: this.#suite.id,
      clientPublic: this.#pair.publicKey,
      nonceC: this.#randoms.nonce,
      clientFeatures: features,
    };
    return handshakeFrame("v1", INIT, encodeInit(this.#init));
  }

  async read(message: Bytes, nowS: number): Promise<Progress> {
    if (this.#records !== undefined) return await confirm(this.#records.opener, message);
    const resp = parseResp(handshakePayload("v1", RESP, message));
    const [pair, init, { psk, recordMax, acceptUnconfirmed }] = [this.#pair!, this.#init!, this.#settings];
    if (!isPublicKey(resp.serverPublic, pair.publicKey)) {
      throw ofHandshake("peer_key_invalid", "the server's public key is none");
    }
    const shared = await pair.agree(resp.serverPublic);
    const transcript = transcriptHash({ ...init, ...resp, suite: this.#suite.id });
    const keys = directions(psk.reveal(), shared, transcript);
    shared.fill(0);
    this.#records = {
      sealer: new V1Sealer(keys.client, recordMax),
      opener: new V1Opener(keys.server, recordMax),
    };
    const tag = authTag(psk.reveal(), transcript, nowS);
    const ack = encodeAck({ handshakeId: resp.handshakeId, timestampS: nowS, authTag: tag });
    return { send: handshakeFrame("v1", ACK, ack), isDone: acceptUnconfirmed };
  }

  records(): { readonly sealer: Sealer; readonly opener: Opener } | undefined {
    return this.#records;
  }
}

/**
 * The peer's first record, which has to be a ping.
 * @throws ChannelError `unconfirmed`, or what a record is refused for.
 */
export async function confirm(opener: Opener, message: Bytes): Promise<Progress> {
  const content = await opener.open(message);
  if (content.kind !== "ping")
    throw ofHandshake("unconfirmed", "the first record is not the one that confirms keys");
  return { isDone: true };
}
