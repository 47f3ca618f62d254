/** The canonical forms of a path: what stands for all spellings that services read as one path (`spec/routes.md`). */

const ESCAPE = /%([0-9a-f]{2})/gi;
const KEPT_ESCAPE = /%([0-9a-f]{2}|u[0-9a-f]{4})/i;
const HIDDEN_SLASH = /;.*[/\\]/s;

// SPEC routes.md#characters
const FULLWIDTH = /[\uff01-\uff5e]/g;
const SPACES = /[\xa0\u2000-\u200a\u202f\u205f\u3000]/g;
const FOLDED: Readonly<Record<string, string>> = {
  "\u2044": "/",
  "\u2215": "/",
  "\u29f8": "/",
  "\u2216": "\\",
  "\u29f5": "\\",
  "\u2024": ".",
  "\u2025": "..",
  "\u2026": "...",
  "\u017f": "s",
  "\u212a": "k",
  "\u0130": "i",
  "\u0131": "i",
  "\xdf": "ss",
  "\u1e9e": "ss",
  "\ufb00": "ff",
  "\ufb01": "fi",
  "\ufb02": "fl",
  "\ufb03": "ffi",
  "\ufb04": "ffl",
  "\ufb05": "st",
  "\ufb06": "st",
  "\xaa": "a",
  "\xba": "o",
  "\xb2": "2",
  "\xb3": "3",
  "\xb9": "1",
};
const REFUSED = new RegExp(
  // What is folded is gone by then.
  "[\\0-\\x1f\\x7f-\\x9f\u0132\u0133\u01c7-\u01cc\u01f1-\u01f3\u02b0-\u02b8\u02e0-\u02e4\u037e\u1d2c-\u1d6a\u1d9b-\u1dbf" +
    "\u1fef\u203c\u2047-\u2049\u2070-\u209f\u20a8\u2100-\u218f\u2460-\u24ff\u2a74-\u2a76\u2c7c\u2c7d\u3250-\u33ff" +
    "\ua7f2-\ua7f4\ufb29\ufe10-\ufe6f\\u{107a5}\\u{1d400}-\\u{1d7ff}\\u{1f100}-\\u{1f1e5}\\u{1fbf0}-\\u{1fbf9}]",
  "u",
);
const FOLDING = new RegExp(`[${Object.keys(FOLDED).join("").replace("\\", "\\\\")}]`, "g");

/**
 * One form, or two where a decoder may have uncovered a query. None is a path on which services differ too much. Each character
 * of `path` is a byte, as sent.
 */
// SPEC routes.md#canonical-form
export function formsOf(path: string): readonly string[] | undefined {
  const segments = path.split("/").map(readSegment);
  if (segments.includes(undefined)) return undefined;
  const text = segments.join("/").replaceAll("\\", "/");
  if (text.startsWith("//")) return undefined;
  const [whole, bare] = [formOf(text), formOf(text.split(/[?#]/, 1)[0] ?? "")];
  if (whole === undefined || bare === undefined) return undefined;
  return whole === bare ? [whole] : [whole, bare];
}

function readSegment(segment: string): string | undefined {
  let bytes = segment;
  for (let times = 0; times < 3; times++) {
    bytes = bytes.replace(ESCAPE, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));
  }
  const text = textOf(bytes)
    ?.replace(FULLWIDTH, (letter) => String.fromCharCode(letter.charCodeAt(0) - 0xfee0))
    .replace(SPACES, " ")
    .replace(FOLDING, (letter) => FOLDED[letter] ?? "");
  const isClear =
    text !== undefined && !REFUSED.test(text) && !KEPT_ESCAPE.test(text) && !HIDDEN_SLASH.test(text);
  return isClear ? text : undefined;
}

function textOf(bytes: string): string | undefined {
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

function formOf(text: string): string | undefined {
  let form = "";
  for (const segment of text.split("/")) {
    const name = segment.split(";", 1)[0] ?? "";
    const bare = name.replace(/[ .]+$/, "");
    // Which segment a step up takes away depends on the service.
    if (bare === "" && name.split(".").length > 2) return undefined;
    if (bare !== "") form += `/${bare.replace(/[A-Z]/g, (letter) => letter.toLowerCase())}`;
  }
  return form;
}
