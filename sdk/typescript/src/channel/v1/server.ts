import { type KeyPair, keyPair } from "../agreement.js";
import { type Bytes, b64u, isEqual } from "../encoding.js";
import { ofHandshake } from "../error.js";
import { handshakeFrame, handshakePayload } from "../frame.js";
import type { Progress, Steps } from "../handshake.js";
import type { Opener, Sealer } from "../record.js";
import type { ChannelSettings, HandshakeRandoms } from "../settings.js";
import type { V1Suite } from "../suite.js";
import {
  ACK,
  encodeResp,
  INIT,
  type Init,
  invalid,
  isPublicKey,
  parseAck,
  parseInit,
  RESP,
} from "./message.js";
import { V1Opener, V1Sealer } from "./record.js";
import { authTag, directions, transcriptHash } from "./schedule.js";

/** State of a server that waits for Ack; it belongs to this connection alone. */
interface InitState {
  readonly pair: KeyPair;
  readonly clientPublic: Bytes;
  readonly transcript: Bytes;
  readonly handshakeId: string;
  readonly init: Bytes;
  readonly resp: Bytes;
}

/** The server's side: Init in, Resp out, Ack in, and a ping out that proves its keys. SPEC channel.md#v1-handshake */
export class V1Server implements Steps {
  readonly #settings: ChannelSettings;
  readonly #suite: V1Suite;
  readonly #randoms: HandshakeRandoms;
  #asked: InitState | undefined;
  #records: { readonly sealer: Sealer; readonly opener: Opener } | undefined;

  constructor(settings: ChannelSettings, suite: V1Suite, randoms: HandshakeRandoms) {
    this.#settings = settings;
    this.#suite = suite;
    this.#randoms = randoms;
  }

  async begin(): Promise<undefined> {
    return undefined;
  }

  async read(message: Bytes, nowS: number): Promise<Progress> {
    if (this.#asked === undefined) {
      this.#asked = await this.#answer(message);
      return { send: this.#asked.resp, isDone: false };
    }
    if (isInit(message)) {
      // A client that heard nothing may ask again, with the same bytes.
      if (!isEqual(message, this.#asked.init))
        throw ofHandshake("init_changed", "a second Init that differs");
      return { send: this.#asked.resp, isDone: false };
    }
    const records = await this.#readAck(this.#asked, message, nowS);
    this.#records = records;
    return { send: await records.sealer.seal({ kind: "ping", value: 0n }), isDone: true };
  }

  // SPEC channel.md#v1-handshake: the checks, in this order.
  async #answer(message: Bytes): Promise<InitState> {
    const { channelId, features } = this.#settings;
    const init = parseInit(handshakePayload("v1", INIT, message));
    this.#check(init);
    const pair = await keyPair(this.#suite.curve, this.#randoms.ephemeral.reveal());
    this.#randoms.ephemeral.wipe();
    const resp = {
      handshakeId: b64u(this.#randoms.handshakeId),
      serverPublic: pair.publicKey,
      nonceS: this.#randoms.nonce,
      serverFeatures: features,
    };
    return {
      pair,
      clientPublic: init.clientPublic,
      transcript: transcriptHash({ ...init, ...resp, channelId, suite: this.#suite.id }),
      handshakeId: resp.handshakeId,
      init: message.slice(),
      resp: handshakeFrame("v1", RESP, encodeResp(resp)),
    };
  }

  #check(init: Init): void {
    if (init.version !== 1) throw ofHandshake("version_mismatch", "the peer speaks another version");
    if (init.role !== 1) throw ofHandshake("role_mismatch", "the peer says that it is no client");
    if (init.channelId !== this.#settings.channelId) {
      throw ofHandshake("channel_mismatch", "the peer means another channel");
    }
    // 0 is "yours"; the transcript has the server's own either way.
    if (init.suite !== 0 && init.suite !== this.#suite.id) {
      throw ofHandshake("suite_mismatch", "the peer uses another suite");
    }
  }

  // SPEC channel.md#v1-handshake: the checks, in this order.
  async #readAck(asked: InitState, message: Bytes, nowS: number) {
    const { psk, skewS, initExpiresS, recordMax } = this.#settings;
    const ack = parseAck(handshakePayload("v1", ACK, message));
    if (ack.handshakeId !== asked.handshakeId) {
      throw ofHandshake("handshake_id_mismatch", "an Ack of another handshake");
    }
    if (Math.abs(nowS - ack.timestampS) > skewS) {
      throw ofHandshake("handshake_timestamp", `clocks that differ by more than ${skewS} s`);
    }
    if (ack.timestampS > initExpiresS + skewS) throw ofHandshake("init_expired", "the time to begin is over");
    if (ack.authTag.length !== 32) throw invalid("auth_tag_b64u");
    if (!isEqual(authTag(psk.reveal(), asked.transcript, ack.timestampS), ack.authTag)) {
      throw ofHandshake("handshake_unauthentic", "the peer does not hold the channel's key");
    }
    if (!isPublicKey(asked.clientPublic, asked.pair.publicKey)) {
      throw ofHandshake("peer_key_invalid", "the client's public key is none");
    }
    const shared = await asked.pair.agree(asked.clientPublic);
    const keys = directions(psk.reveal(), shared, asked.transcript);
    shared.fill(0);
    return {
      sealer: new V1Sealer(keys.server, recordMax),
      opener: new V1Opener(keys.client, recordMax),
    };
  }

  records(): { readonly sealer: Sealer; readonly opener: Opener } | undefined {
    return this.#records;
  }
}

function isInit(message: Bytes): boolean {
  try {
    handshakePayload("v1", INIT, message);
    return true;
  } catch {
    return false;
  }
}
