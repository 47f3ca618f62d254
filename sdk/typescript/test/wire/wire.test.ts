/** The forms of the wires at their edges: what is accepted, and what is rejected with which code. */
import { describe, expect, it } from "vitest";
import { fromBase64, toBase64, toBase64Url } from "../../src/wire/base64.js";
import { fields } from "../../src/wire/fields.js";
import * as forms from "../../src/wire/forms.js";
import { firstOf, optional, required, SEALING, valuesOf } from "../../src/wire/headers.js";
import { isWhole, membersOf, parseJson } from "../../src/wire/json.js";
import { bytesOf, fault, namesOf, Reader, shortText, textOf, wholeUpTo } from "../../src/wire/reader.js";
import { checkWindow } from "../../src/wire/window.js";

const utf8 = (text: string) => new TextEncoder().encode(text);
const json = (text: string) => parseJson(utf8(text));

/** Returns the code, and the field, of the error that `run` throws. */
function rejected(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    const { code, field } = error as { code: string; field?: string };
    return field === undefined ? code : `${code} ${field}`;
  }
  return "accepted";
}

describe("base64", () => {
  it("has one spelling for each length", () => {
    const all = Uint8Array.from({ length: 256 }, (_, at) => at);
    for (let length = 0; length <= 256; length += 1) {
      const bytes = all.subarray(0, length);
      expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString("base64"));
      expect(fromBase64(toBase64(bytes))).toEqual(bytes);
      expect(toBase64Url(bytes)).toBe(Buffer.from(bytes).toString("base64url"));
    }
    expect(toBase64Url(Uint8Array.of(0xfb, 0xef, 0xff, 0xfb, 0xef, 0xff, 0))).toBe("--__--__AA");
  });

  it.each([
    "A",
    "AA",
    "AAA",
    "AAAAA",
    "AA=",
    "A===",
    "====",
    "=AAA",
    "AA=A",
    "AAAA=",
    "AAAA====",
    "AB==",
    "AAB=",
    "AAAAAB==",
    " AAA",
    "AAA ",
    "AA\nAA",
    "AAA\n",
    "AA-_",
    "AA!A",
    "AAé=",
    "!AAAAAAA",
    "    AAAA",
    "AAAA    ",
    "AA  AA  ",
    "\n\n\n\nAAAA",
  ])("does not have the spelling %s", (text) => {
    expect(fromBase64(text)).toBeUndefined();
  });
});

describe("JSON", () => {
  it("is read", () => {
    expect(json('{"a":[1,-2.5e3,true,null,"x\\"]}\\\\"],"b":{"c":"[[["}}')).toEqual({
      a: [1, -2500, true, null, 'x"]}\\'],
      b: { c: "[[[" },
    });
    expect(json(' "1e999" ')).toBe("1e999");
    expect(json("1.7976931348623157e308")).toBe(Number.MAX_VALUE);
    expect(json("1e+2")).toBe(100);
    expect(json('{"a":1,"a":2}')).toEqual({ a: 2 });
  });

  it.each([
    "[".repeat(127) + "]".repeat(127),
    `${'{"a":'.repeat(127)}1${"}".repeat(127)}`,
    `[${"[[]],".repeat(200)}1]`,
    `[${"{},".repeat(200)}1]`,
    `["${'\\"['.repeat(200)}"]`,
    `["\\\\",${'"{",'.repeat(200)}1]`,
    `"${"[".repeat(200)}"`,
    `["a\\\\\\"${"[".repeat(200)}"]`,
    `["","","${"{".repeat(200)}",""]`,
  ])("is nested 127 levels deep at most", (text) => {
    expect(rejected(() => json(text))).toBe("accepted");
  });

  it.each([
    "[".repeat(128) + "]".repeat(128),
    `${'{"a":'.repeat(128)}1${"}".repeat(128)}`,
    `["",${"[".repeat(127)}${"]".repeat(127)}]`,
    `["\\\\",${"[".repeat(127)}${"]".repeat(127)}]`,
    "1e999",
    "-1e999",
    "[1,2,1e309]",
    "10E+400",
    `${"9".repeat(400)}`,
    `0.1e${"9".repeat(4)}`,
    '{"a":1e999}',
    "",
    "{",
    '{"a":1}x',
    "\ufeff{}",
    "'a'",
    '"a',
    '"\\',
    "NaN",
    "01",
  ])("%s is rejected", (text) => {
    expect(rejected(() => json(text))).toBe("json_invalid");
  });

  it("is UTF-8", () => {
    expect(rejected(() => parseJson(Uint8Array.of(0x22, 0xff, 0x22)))).toBe("json_invalid");
  });

  it("has members where it is an object", () => {
    expect(membersOf({ a: 1 })).toEqual({ a: 1 });
    for (const value of [null, [], "a", 1, true, undefined]) expect(membersOf(value)).toBeUndefined();
  });

  it("has whole numbers from 0 to the top", () => {
    expect([0, 1, 10].every((value) => isWhole(value, 10))).toBe(true);
    expect([11, -1, 0.5, Number.NaN, Infinity, "1", null, true, 1n].some((value) => isWhole(value, 10))).toBe(
      false,
    );
  });
});

describe("a reader", () => {
  const reader = (text: string, code: "field_invalid" | "answer_mismatch" = "field_invalid") =>
    Reader.of(utf8(text), code);
  const text = textOf(/^a+$/);

  it("of a request tells faults apart, and of an answer does not", () => {
    for (const [body, code] of [
      ["{", "json_invalid"],
      ["[]", "field_invalid"],
      ["null", "field_invalid"],
    ] as const) {
      expect(rejected(() => reader(body))).toBe(code);
      expect(rejected(() => reader(body, "answer_mismatch"))).toBe("answer_mismatch");
    }
  });

  it("names the member", () => {
    const read = reader('{"a":"aa","b":"b","c":null}');
    expect(read.required("a", text)).toBe("aa");
    expect(read.optional("a", text)).toBe("aa");
    expect(rejected(() => read.optional("b", text))).toBe("field_invalid b");
    expect(rejected(() => read.required("b", text))).toBe("field_invalid b");
    for (const name of ["c", "d", "toString", "__proto__"]) {
      expect(read.optional(name, (value) => String(value))).toBeUndefined();
      expect(rejected(() => read.required(name, (value) => String(value)))).toBe(`field_invalid ${name}`);
    }
    expect(rejected(() => reader('{"b":1}', "answer_mismatch").required("b", text))).toBe(
      "answer_mismatch b",
    );
    expect(fault("field_invalid", "name").message).toBe("the member name is not of its form");
    expect(fault("field_invalid").message).toBe("the message is no JSON object");
    expect(fault("field_invalid").field).toBeUndefined();
  });

  it("reads texts", () => {
    expect([text("aa"), text("b"), text(1), text(["aa"])]).toEqual(["aa", undefined, undefined, undefined]);
    expect(textOf(/^1$/)(1)).toBeUndefined();
    const short = shortText(4);
    expect(["", "a", "abcd", "abcde", "éé", "ééa", 1, null].map(short)).toEqual([
      undefined,
      "a",
      "abcd",
      undefined,
      "éé",
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("reads bytes", () => {
    const [two, any] = [bytesOf(3, 2), bytesOf()];
    const sizes = [1, 2, 3, 4].map((length) => two(toBase64(new Uint8Array(length)))?.length);
    expect(sizes).toEqual([undefined, 2, 3, undefined]);
    expect([
      any(""),
      any("AA"),
      any(1),
      any(null),
      any("AA==")?.length,
      any(toBase64(new Uint8Array(5000)))?.length,
    ]).toEqual([undefined, undefined, undefined, undefined, 1, 5000]);
  });

  it("reads numbers", () => {
    expect([wholeUpTo(5)(0), wholeUpTo(5)(5), wholeUpTo(5)(6), wholeUpTo(5)("5")]).toEqual([
      0,
      5,
      undefined,
      undefined,
    ]);
  });

  it("reads lists of different names", () => {
    const names = namesOf(/^[a-c]$/, 1, 2);
    expect(names(["a"])).toEqual(["a"]);
    expect(names(["b", "a"])).toEqual(["b", "a"]);
    expect(namesOf(/^1$/, 1, 2)([1])).toBeUndefined();
    for (const value of [
      [],
      ["a", "b", "c"],
      ["a", "a"],
      ["a", "d"],
      ["d"],
      [1],
      ["a", 1],
      "a",
      null,
      { length: 1 },
    ])
      expect(names(value)).toBeUndefined();
  });
});

describe("forms", () => {
  const digits = "0123456789abcdef".repeat(2);

  it("of session ids", () => {
    for (const id of [`S-${digits}`, `A-${digits}`]) {
      expect(forms.isSessionId(id)).toBe(true);
      expect(forms.sessionIdOf(`session:${id}`)).toBe(id);
    }
    for (const id of [
      "",
      `B-${digits}`,
      `S-${digits}0`,
      `xS-${digits}`,
      `S-${digits.slice(1)}`,
      `S-${digits.toUpperCase()}`,
    ])
      expect([forms.isSessionId(id), forms.sessionIdOf(`session:${id}`)]).toEqual([false, undefined]);
    expect(rejected(() => forms.sessionIdOf(`hpke:S-${digits}`))).toBe("kid_prefix");
    expect(rejected(() => forms.idOf("xsession:a"))).toBe("kid_prefix");
    expect(forms.idOf("hpke:a", "hpke:")).toBe("a");
  });

  it("of client ids", () => {
    for (const id of ["a", " ", "~", "{}", "x".repeat(256)]) expect(forms.isClientId(id)).toBe(true);
    for (const id of ["", "|", "a|b", "\x1f", "\x7f", "é", "a\nb", "\na", "x".repeat(257)])
      expect(forms.isClientId(id)).toBe(false);
  });

  it("of idempotency keys", () => {
    expect(forms.splitIdempotencyKey("1.a")).toEqual(["1", "a"]);
    for (const key of ["", ".", "1", "1.", ".a", "1.a.", "1.a.b", "..", "1..a"])
      expect(rejected(() => forms.splitIdempotencyKey(key))).toBe("idempotency_key_shape");
  });

  it("of nonces", () => {
    const [shortest, longest] = ["a".repeat(16), "Zz09_-".padEnd(128, "x")];
    for (const check of [forms.checkNonce, forms.checkRequestNonce]) {
      for (const nonce of [shortest, longest, "ar-aaaaaaaaaaaaaaaa", "r_aaaaaaaaaaaaaaaa"])
        expect(rejected(() => check(nonce, 16))).toBe("accepted");
      for (const nonce of [
        "",
        shortest.slice(1),
        `${longest}x`,
        `${shortest}.`,
        `.${shortest}`,
        `${shortest}\n`,
      ])
        expect(rejected(() => check(nonce, 16))).toBe("nonce_invalid");
      expect(rejected(() => check("", 0))).toBe("nonce_invalid");
    }
    for (const begin of ["r-", "R-"])
      expect(rejected(() => forms.checkRequestNonce(begin + shortest, 16))).toBe("nonce_reserved");
    expect(rejected(() => forms.checkAnswerNonce(`r-${shortest}`, 16))).toBe("accepted");
    expect(rejected(() => forms.checkAnswerNonce(`p-${shortest}`, 16, /^p-/))).toBe("accepted");
    for (const nonce of [shortest, `R-${shortest}`, `ar-${shortest}`, `p-${shortest}`])
      expect(rejected(() => forms.checkAnswerNonce(nonce, 16))).toBe("answer_mismatch");
    expect(rejected(() => forms.checkAnswerNonce("r-a", 16))).toBe("nonce_invalid");
  });

  it("of timestamps", () => {
    expect([forms.parseStamp("0"), forms.parseStamp("007"), forms.parseStamp("9".repeat(15))]).toEqual([
      0, 7, 999999999999999,
    ]);
    for (const stamp of ["", "-1", "+1", "1.5", "1e3", " 1", "1 ", "x", "1\n", "9".repeat(16)])
      expect(rejected(() => forms.parseStamp(stamp))).toBe("timestamp_invalid");
  });

  it("of limits are those of the specs", () => {
    expect([
      forms.INIT_LEN_MAX,
      forms.SEALED_HEADER_LEN_MAX,
      forms.TARGET_LEN_MAX,
      forms.SET_LEN_MAX,
    ]).toEqual([16384, 8192, 8192, 65536]);
    expect([forms.SIGNATURE_LEN_MAX, forms.PROBLEM_LEN_MAX, forms.WINDOW_MS, forms.WINDOW_MAX_MS]).toEqual([
      8192, 98304, 300000, 300000,
    ]);
  });
});

describe("headers", () => {
  it("are found without case", () => {
    const headers = [
      ["X-A", "1"],
      ["x-a", "2"],
      ["X-B", "3"],
    ] as const;
    expect(valuesOf(headers, "x-A")).toEqual(["1", "2"]);
    expect([firstOf(headers, "X-A"), firstOf(headers, "x-b"), firstOf(headers, "x-c")]).toEqual([
      "1",
      "3",
      undefined,
    ]);
  });

  it("stand once and are of visible ASCII, spaces and tabs", () => {
    expect(optional([["X-A", "\t ~"]], "x-a")).toBe("\t ~");
    expect([optional([], "x-a"), optional([["X-A", ""]], "x-a")]).toEqual([undefined, ""]);
    for (const value of ["\x1f", "\x7f", "é", "a\nb", "\ra", "a\x00"])
      expect(rejected(() => optional([["X-A", value]], "X-A"))).toBe("header_invalid X-A");
    const twice = [
      ["X-A", "1"],
      ["x-a", "1"],
    ] as const;
    for (const read of [optional, required])
      expect(rejected(() => read(twice, "X-A"))).toBe("header_invalid X-A");
  });

  it("that are required are neither absent nor empty", () => {
    expect(required([["x-a", "1"]], "X-A")).toBe("1");
    expect(rejected(() => required([], "X-A"))).toBe("header_missing X-A");
    expect(rejected(() => required([["X-A", ""]], "X-A"))).toBe("header_missing X-A");
  });

  it("of sealing are eleven", () => {
    expect([...SEALING].sort()).toEqual(
      "x-aad x-clientid x-enc-alg x-idempotency-key x-iv x-kid x-nonce x-seal x-sealed x-tag x-timestamp".split(
        " ",
      ),
    );
  });
});

it("a window has both edges", () => {
  for (const stamp of [90, 100, 110]) expect(rejected(() => checkWindow(stamp, 100, 10))).toBe("accepted");
  for (const stamp of [89, 111, 0])
    expect(rejected(() => checkWindow(stamp, 100, 10))).toBe("timestamp_outside_window");
});

describe("fields", () => {
  const all = (...parts: (Uint8Array | string | number | undefined)[]) =>
    Buffer.from(fields(...parts)).toString("hex");

  it("have their lengths", () => {
    expect(all()).toBe("");
    expect(all("ab", undefined, "", Uint8Array.of(1, 2, 3))).toBe(
      "0000000261620000000000000000" + "00000003010203",
    );
    expect(all("aé\x7f")).toBe("0000000461c3a97f");
    expect(all("é", "a", 1, Uint8Array.of(255))).toBe(
      "00000002c3a90000000161000000080000000000000001" + "00000001ff",
    );
    expect(all("€".repeat(100)).slice(0, 14)).toBe("0000012ce282ac");
    expect(all("\x80")).toBe("00000002c280");
    expect(all(0x1_2345_6789_abcd)).toBe("00000008000123456789abcd");
    expect(all(2 ** 53 - 1, 0)).toBe("00000008001fffffffffffff000000080000000000000000");
  });
});
