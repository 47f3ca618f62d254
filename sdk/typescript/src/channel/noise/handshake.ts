import { keyPair } from "../agreement.js";
import { type Bytes, concat, isEqual, uint, utf8 } from "../encoding.js";
import { ChannelError, ofHandshake } from "../error.js";
import { handshakeFrame, handshakePayload } from "../frame.js";
import type { Progress, Role, Steps } from "../handshake.js";
import type { Opener, Sealer } from "../record.js";
import type { ChannelSettings, HandshakeRandoms } from "../settings.js";
import type { NativeSuite } from "../suite.js";
import { confirm } from "../v1/client.js";
import { decapsulate, encapsulate, type KemPair, kemPair, PSK_PLACE } from "./hybrid.js";
import { NativeOpener, NativeSealer } from "./record.js";
import { NoiseState } from "./state.js";

const PLACES = { NNpsk0: 0, KKpsk0: 0, IKpsk1: 1, XXpsk3: 3 } as const;
const NOTHING: Bytes = new Uint8Array(0);

/**
 * What both ends must mean alike. Every part has a fixed length or one that stands before it.
 * SPEC channel.md#prologue
 */
export function prologueOf(settings: ChannelSettings): Bytes {
  const id = utf8(settings.channelId);
  return concat(
    utf8("sealway-channel-v1"),
    uint(id.length, 2),
    id,
    uint(settings.initExpiresS, 8),
    Uint8Array.of(1, 2),
    settings.binding,
    uint(settings.suite.id, 2),
    uint(settings.allowedSuites.length, 1),
    ...settings.allowedSuites.map((suite) => uint(suite, 2)),
  );
}

/** Either side of the native handshake. SPEC channel.md#native-handshake */
export class NoiseHandshake implements Steps {
  readonly #role: Role;
  readonly #settings: ChannelSettings;
  readonly #suite: NativeSuite;
  readonly #randoms: HandshakeRandoms;
  readonly #psks: Map<number, Bytes>;
  #noise: NoiseState | undefined;
  #kem: KemPair | undefined;
  /** The type of the frame that is due. */
  #awaits = 1;
  #records: { readonly sealer: Sealer; readonly opener: Opener } | undefined;

  constructor(role: Role, settings: ChannelSettings, suite: NativeSuite, randoms: HandshakeRandoms) {
    this.#role = role;
    this.#settings = settings;
    this.#suite = suite;
    this.#randoms = randoms;
    this.#psks = new Map([[PLACES[suite.pattern], settings.psk.reveal()]]);
  }

  async begin(): Promise<Bytes | undefined> {
    const { pattern, curve, hasStaticKeys, name } = this.#suite;
    const { localStatic, peerStatic } = this.#settings;
    const ephemeral = await keyPair(curve, this.#randoms.ephemeral.reveal());
    this.#randoms.ephemeral.wipe();
    const knowsPeer = pattern === "KKpsk0" || (pattern === "IKpsk1" && this.#role === "client");
    this.#noise = new NoiseState({
      name,
      role: this.#role,
      prologue: prologueOf(this.#settings),
      psks: this.#psks,
      ephemeral,
      ownStatic: hasStaticKeys && localStatic ? await keyPair(curve, localStatic.reveal()) : undefined,
      peerStatic: knowsPeer ? peerStatic : undefined,
    });
    if (this.#role === "server") return undefined;
    if (this.#suite.isHybrid) this.#kem = kemPair(this.#randoms);
    this.#awaits = 2;
    return handshakeFrame("native", 1, await this.#noise.write(this.#kem?.publicKey ?? NOTHING));
  }

  // SPEC channel.md#native-handshake: the checks, in this order.
  async read(message: Bytes, nowS: number): Promise<Progress> {
    const noise = this.#noise;
    if (noise === undefined) throw ofHandshake("handshake_state", "a message before the beginning");
    if (this.#records !== undefined) return await confirm(this.#records.opener, message);
    let payload = handshakePayload("native", this.#awaits, message);
    if (nowS > this.#settings.initExpiresS + this.#settings.skewS) {
      throw ofHandshake("init_expired", "the time to begin is over");
    }
    if (this.#awaits === 2 && this.#kem !== undefined) {
      const opened = decapsulate(this.#kem, payload);
      this.#psks.set(PSK_PLACE, opened.psk);
      payload = opened.noise;
    }
    const inside = await noise.read(payload);
    this.#checkPinned(noise);
    const hasKemKey = this.#suite.isHybrid && this.#awaits === 1;
    if (!hasKemKey && inside.length > 0)
      throw ofHandshake("handshake_field_invalid", "a payload where none is due");
    if (noise.isFinished) {
      const { sealer } = this.#split(noise);
      return { send: await sealer.seal({ kind: "ping", value: 0n }, 0), isDone: true };
    }
    return { send: await this.#answer(noise, hasKemKey ? inside : undefined), isDone: false };
  }

  async #answer(noise: NoiseState, kemKey: Bytes | undefined): Promise<Bytes> {
    let before = NOTHING;
    if (kemKey !== undefined) {
      const { ciphertext, psk } = encapsulate(kemKey, this.#randoms);
      this.#psks.set(PSK_PLACE, psk);
      before = ciphertext;
    }
    const type = this.#awaits + 1;
    const answer = handshakeFrame("native", type, concat(before, await noise.write(NOTHING)));
    if (noise.isFinished) this.#split(noise);
    this.#awaits = type + 1;
    return answer;
  }

  /** A static key that the peer has shown must be the pinned one. */
  #checkPinned(noise: NoiseState): void {
    const [shown, pinned] = [noise.peerStatic, this.#settings.peerStatic];
    if (shown === undefined) return;
    if (pinned === undefined || !isEqual(shown, pinned)) {
      throw new ChannelError(
        "handshake",
        "peer_key_unpinned",
        "the peer has another static key than the pinned one",
      );
    }
  }

  #split(noise: NoiseState): { readonly sealer: Sealer; readonly opener: Opener } {
    const [client, server] = noise.split();
    const [own, peer] = this.#role === "client" ? [client, server] : [server, client];
    const { cipher } = this.#suite;
    this.#psks.get(PSK_PLACE)?.fill(0);
    this.#records = {
      sealer: new NativeSealer(cipher, own, this.#role, this.#settings),
      opener: new NativeOpener(cipher, peer, this.#role),
    };
    return this.#records;
  }

  records(): { readonly sealer: Sealer; readonly opener: Opener } | undefined {
    return this.#records;
  }
}
