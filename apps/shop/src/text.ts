/** `29:05`, or `1:02:03` from an hour on. Part of a second that is left counts as one, so `0:00` means over. */
export function countdown(remainingMs: number): string {
  const seconds = Math.max(0, Math.ceil(remainingMs / 1000));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** A span of time as one would say it: `30 minutes`, `45 seconds`. */
export function spoken(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} ${seconds === 1 ? "second" : "seconds"}`;
  return `${Math.round(seconds / 60)} minutes`;
}

/** Milliseconds with as many decimals as mean something: `0.12`, `4.2`, `1,234`. */
export function millis(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1) return ms.toFixed(2);
  return ms < 100 ? ms.toFixed(1) : Math.round(ms).toLocaleString("en");
}

/** `512 B`, `1.3 KiB`. */
export function bytes(count: number): string {
  return count < 1024 ? `${count} B` : `${(count / 1024).toFixed(1)} KiB`;
}

/** A long identifier with its middle left out; the whole one stands in the title. */
export function shortened(id: string, keep = 8): string {
  return id.length <= 2 * keep + 1 ? id : `${id.slice(0, keep)}…${id.slice(-keep)}`;
}

/** The time of day with milliseconds, in the reader's zone. */
export function clockTime(ms: number): string {
  const date = new Date(ms);
  const two = (n: number) => String(n).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** `1 key`, `2 keys`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

const HEX_BYTES_MAX = 512;

/** `a1 b2 c3`, which wraps at any width; of more than 512 bytes the first, and how many follow. */
export function flowingHex(data: Uint8Array): string {
  const shown = data.subarray(0, HEX_BYTES_MAX);
  const hex = Array.from(shown, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const more = data.length - shown.length;
  return more > 0 ? `${hex} … and ${more} more` : hex;
}

/** The length of a text in UTF-8, in bytes. */
export function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}
