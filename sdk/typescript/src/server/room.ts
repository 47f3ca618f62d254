/** Bounds the bytes of sealed bodies that have arrived and are not opened yet: in all, and by address. */
import { isIP } from "node:net";
import { SealwayError } from "../wire/error.js";

export const BUFFERED_MAX_BYTES = 64 * 1024 * 1024;
export const BUFFERED_MAX_BYTES_MIN = 1024 * 1024;
const ADDRESS_PART = 16;
/** One frame of wire 3 and what was read behind it. */
const FRAME_ROOM = 128 * 1024;

export class Room {
  readonly max: number;
  /** An address's part, in bytes. */
  readonly share: number;
  readonly #byAddress = new Map<string, number>();
  #taken = 0;

  /** @param longest the longest body that is held whole: no address's share is less than that, nor than a sixteenth. */
  constructor(max: number, longest: number) {
    this.max = max;
    this.share = Math.min(max, Math.max(Math.floor(max / ADDRESS_PART), longest, FRAME_ROOM));
  }

  get taken(): number {
    return this.#taken;
  }

  /** The number of addresses that hold something. */
  get addresses(): number {
    return this.#byAddress.size;
  }

  /** Begins a part of the room that holds nothing yet. What is no IP address (of a Unix socket) has no bound of its own. */
  holding(remote: string | undefined): Reservation {
    return new Reservation(this, clientOf(remote));
  }

  /** Takes bytes, or none and returns false. */
  take(client: string | undefined, bytes: number): boolean {
    const own = client === undefined ? 0 : (this.#byAddress.get(client) ?? 0);
    if (this.#taken + bytes > this.max || (client !== undefined && own + bytes > this.share)) return false;
    this.#taken += bytes;
    if (client !== undefined && bytes > 0) this.#byAddress.set(client, own + bytes);
    return true;
  }

  giveBack(client: string | undefined, bytes: number): void {
    this.#taken -= bytes;
    if (client === undefined || bytes === 0) return;
    const left = (this.#byAddress.get(client) ?? 0) - bytes;
    if (left > 0) this.#byAddress.set(client, left);
    else this.#byAddress.delete(client);
  }
}

/** The part of a room that one request holds. */
export class Reservation {
  readonly #room: Room;
  readonly #client: string | undefined;
  #held = 0;
  #isOver = false;

  constructor(room: Room, client: string | undefined) {
    this.#room = room;
    this.#client = client;
  }

  /** The longest body that it can ever hold. */
  get max(): number {
    return this.#room.max;
  }

  /** @throws {SealwayError} `no_room`, with nothing taken. */
  grow(bytes: number): void {
    if (this.#isOver) return;
    if (!this.#room.take(this.#client, bytes)) {
      throw new SealwayError(
        "no_room",
        "sealed bodies that are still arriving take all of bufferedMaxBytes, or the share of this address",
      );
    }
    this.#held += bytes;
  }

  /** Gives back all but so many bytes. */
  keep(bytes: number): void {
    const less = this.#held - bytes;
    if (less <= 0) return;
    this.#held = bytes;
    this.#room.giveBack(this.#client, less);
  }

  /** Gives back all. The request is over: nothing of it is counted any more. */
  release(): void {
    this.keep(0);
    this.#isOver = true;
  }
}

/** Returns what a share is of: an IPv4 address, or an IPv6 /64. */
export function clientOf(remote: string | undefined): string | undefined {
  const address = remote?.replace(/%.*$/, "") ?? "";
  if (isIP(address) !== 6) return isIP(address) === 4 ? address : undefined;
  // One spelling, with no IPv4 form within.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const [first, last] = [head, tail ?? ""].map((part) => (part === "" ? [] : part.split(":"))) as [
    string[],
    string[],
  ];
  const groups = [...first, ...Array<string>(8 - first.length - last.length).fill("0"), ...last];
  if (groups.slice(0, 6).join(":") !== "0:0:0:0:0:ffff") return `${groups.slice(0, 4).join(":")}::/64`;
  const bytes = groups
    .slice(6)
    .flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]);
  return bytes.join(".");
}
