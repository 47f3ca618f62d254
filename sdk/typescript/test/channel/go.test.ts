import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  allSuites,
  attach,
  type ChannelError,
  Identity,
  parseGrant,
  parseGrantPair,
  type Role,
  type Suite,
  suiteById,
} from "../../src/channel/index.js";
import { GoPeer, play } from "./go.js";
import { RelayFixture } from "./relay.js";

const fixture = new RelayFixture();
const go = new GoPeer();
// Go compiles its standard library first, on a machine that has not done so before.
beforeAll(() => go.start(), 300_000);
beforeAll(() => fixture.start());
afterAll(() => {
  go.stop();
  fixture.stop();
});

type Roles = readonly ["client", "server"] | readonly ["server", "client"];
const ROLES: Roles[] = [
  ["client", "server"],
  ["server", "client"],
];
const SUITES = allSuites();
const named = (suite: Suite): string => `${suite.profile === "v1" ? "flowersec-v1, " : ""}${suite.name}`;

interface Keys {
  readonly flags: string[];
  readonly ours: Identity | undefined;
  readonly theirs: Identity | undefined;
}

/** Static keys of both ends, where a suite has them, and what pins them. */
async function keysFor(suite: Suite, [our]: Roles): Promise<Keys> {
  if (suite.profile === "v1" || !suite.hasStaticKeys)
    return { flags: [], ours: undefined, theirs: undefined };
  const [ours, theirs] = [Identity.draw(suite.curve), Identity.draw(suite.curve)];
  const [client, server] = our === "client" ? [ours, theirs] : [theirs, ours];
  const pins = [
    `--client-static=${await client.public(suite.curve)}`,
    `--server-static=${await server.public(suite.curve)}`,
  ];
  return { flags: ["--noise-pattern", suite.pattern, ...pins], ours, theirs };
}

function flagsOf(suite: Suite): string[] {
  return ["--suite", `${suite.id}`, "--profile", suite.profile === "v1" ? "flowersec-v1" : "native"];
}

it("every suite of both profiles is played with Go", () => {
  expect(SUITES.map(({ id }) => id)).toEqual([
    ...[1, 2],
    ...[0x100, 0x110, 0x120, 0x130].flatMap((first) => [0, 1, 2, 3, 4, 5, 6, 7].map((bits) => first + bits)),
  ]);
});

describe.each(SUITES.map((suite) => [named(suite), suite] as const))("with Go, %s,", (_, suite) => {
  it.each(ROLES)("we are the %s: streams, calls and notifications go both ways", async (our, their) => {
    const { flags, ours, theirs } = await keysFor(suite, [our, their] as Roles);
    const text = await fixture.mintText(...flagsOf(suite), ...flags);
    const grants = JSON.parse(text) as Record<string, unknown>;
    const weClose = our === "client";
    const next = go.ask({
      grant: grants[`grant_${their}`],
      closes: !weClose,
      ...(theirs === undefined ? {} : { identity: theirs.encode() }),
    });
    const channel = await attach(parseGrantPair(text)[our], ours === undefined ? {} : { identity: ours });
    await play(channel);
    expect(await next()).toMatchObject({ is: "played" });
    if (weClose) await channel.close(7, "enough");
    const [over, why] = [await next(), await channel.over()];
    expect(over.is).toBe("over");
    // Of v1 an end hears that the streams are over, or that the connection is, whichever comes first.
    expect([over.code, why.code].join()).toMatch(/^(ended|peer_closed),(ended|peer_closed)$/);
    if (suite.profile === "v1") return;
    // Native records say who ended it, and why.
    expect([over.code, why.code]).toEqual(["ended", "ended"]);
    if (weClose) expect([over.close, over.reason]).toEqual([7, "enough"]);
    else expect(why.message).toContain('the peer ended the channel with the code 7: "enough"');
  });
});

type Grant = Record<string, unknown>;
type Change = (grant: Grant, other: Grant) => Grant;

/** What an end says, as "stage code". */
type Told = Record<Role, Promise<string>>;

/** What both ends say when one of them was given a grant that does not fit the other's. */
async function refusals(
  id: number,
  roles: Roles,
  changed: Role,
  change: Change,
  waitMs?: number,
): Promise<Told> {
  const flags = ["--suite", `${id}`, "--profile", id < 0x100 ? "flowersec-v1" : "native"];
  const mint = async () => JSON.parse(await fixture.mintText(...flags)) as Record<string, Grant>;
  const [grants, others] = await Promise.all([mint(), mint()]);
  const of = (role: Role): Grant => {
    const grant = grants[`grant_${role}`]!;
    return role === changed ? change(grant, others[`grant_${role}`]!) : grant;
  };
  return attempts(roles, of, {}, waitMs);
}

function attempts(
  [our, their]: Roles,
  of: (role: Role) => Grant,
  identities: Partial<Record<Role, Identity>> = {},
  waitMs = 10_000,
): Told {
  const [ours, theirs] = [identities[our], identities[their]];
  const next = go.ask({
    grant: of(their),
    handshake_ms: waitMs,
    ...(theirs === undefined ? {} : { identity: theirs.encode() }),
  });
  const identity = ours === undefined ? {} : { identity: ours };
  const options = { handshakeTimeoutMs: waitMs, peerTimeoutMs: waitMs, ...identity };
  const mine = attach(parseGrant(of(our)), options).then(
    () => "it connected",
    (error: ChannelError) => `${error.stage} ${error.code}`,
  );
  const other = next().then((said) => (said.is === "refused" ? `${said.stage} ${said.code}` : said.is));
  return { [our]: mine, [their]: other } as Told;
}

/** The end of the connection alone tells of the peer's refusal; it gives no reason. */
const CUT = /^(attach|handshake) peer_closed$/;

describe.concurrent.each(ROLES)(
  "we are the %s, and the grants of Go's end and ours do not fit:",
  (our, their) => {
    const roles = [our, their] as Roles;
    const another =
      (member: string): Change =>
      (grant, other) => ({ ...grant, [member]: other[member] });
    const suite =
      (id: number): Change =>
      (grant) => ({ ...grant, default_suite: id, allowed_suites: [id] });
    const expired: Change = (grant) => ({ ...grant, channel_init_expire_at_unix_s: 1_700_000_000 });

    it.each<[string, string, number, Role, Change]>([
      ["another secret of the channel", "handshake_unauthentic", 1, "client", another("e2ee_psk_b64u")],
      ["another secret of the channel", "handshake_unauthentic", 2, "server", another("e2ee_psk_b64u")],
      ["another secret of the channel", "handshake_unauthentic", 0x100, "client", another("e2ee_psk_b64u")],
      ["another secret of the channel", "handshake_unauthentic", 0x104, "server", another("e2ee_psk_b64u")],
      ["another suite", "suite_mismatch", 1, "client", suite(2)],
      ["another suite", "handshake_unauthentic", 0x100, "client", suite(0x101)],
      ["a suite without ML-KEM", "handshake_unauthentic", 0x104, "client", suite(0x100)],
      ["the other profile", "handshake_frame_invalid", 1, "client", suite(0x100)],
      ["the other profile", "handshake_frame_invalid", 0x104, "client", suite(1)],
      ["a time to begin that is over", "init_expired", 1, "server", expired],
      ["a time to begin that is over", "init_expired", 0x104, "server", expired],
      [
        "a time to begin that is over, in what both agree on",
        "handshake_unauthentic",
        0x104,
        "client",
        expired,
      ],
    ])(
      "%s is %s of the server's, in suite %i, where the %s's was changed",
      async (_, code, id, changed, change) => {
        const said = await refusals(id, roles, changed, change);
        expect(await said.server).toBe(`handshake ${code}`);
        expect(await said.client).toMatch(CUT);
      },
    );

    it.each<[string, string, number, Change]>([
      ["the token of another channel", "channel_mismatch", 1, another("token")],
      ["the token of another channel", "channel_mismatch", 0x104, another("token")],
      ["the other's role", "role_mismatch", 1, (grant) => ({ ...grant, role: 3 - (grant.role as number) })],
      [
        "the other's role",
        "role_mismatch",
        0x104,
        (grant) => ({ ...grant, role: 3 - (grant.role as number) }),
      ],
      [
        "a token whose signature was changed",
        "invalid_token",
        0x104,
        (grant) => ({
          ...grant,
          token: (grant.token as string).replace(/.(?=.{9}$)/, (sign) => (sign === "A" ? "B" : "A")),
        }),
      ],
    ])("%s is %s of the relay's, in suite %i", async (_, code, id, change) => {
      for (const changed of roles)
        expect(await (await refusals(id, roles, changed, change))[changed]).toBe(`attach ${code}`);
    });

    it("another channel of the same control plane has no peer", async () => {
      const said = await refusals(0x104, roles, our, (_, other) => other, 3000);
      expect(await Promise.all([said.client, said.server])).toEqual([
        "handshake timeout",
        "handshake timeout",
      ]);
    });
  },
);

// Each pattern, with either curve, with ML-KEM and without.
const PINNED = [0x110, 0x116, 0x122, 0x124, 0x130, 0x136].flatMap((id) => {
  const suite = suiteById(id);
  return suite?.profile === "native" ? [suite] : [];
});
/** Who refuses a stranger, and with which code, by pattern and the stranger's role. */
const STRANGERS: Record<string, readonly [Role, string]> = {
  // Both keys are in the first message's keys; nothing says which of them is another.
  "KKpsk0 client": ["server", "handshake_unauthentic"],
  "KKpsk0 server": ["server", "handshake_unauthentic"],
  // The client shows its key, sealed to the server's.
  "IKpsk1 client": ["server", "peer_key_unpinned"],
  "IKpsk1 server": ["server", "handshake_unauthentic"],
  // Each shows its own.
  "XXpsk3 client": ["server", "peer_key_unpinned"],
  "XXpsk3 server": ["client", "peer_key_unpinned"],
};

describe.concurrent.each(PINNED.map((suite) => [suite.name, suite] as const))(
  "with pinned keys, %s,",
  (_, suite) => {
    it.each(ROLES.flatMap(([our, their]) => [[our, their, our] as const, [our, their, their] as const]))(
      "we are the %s, Go is the %s, and the %s has another key than the pinned one: rejected",
      async (our, their, stranger) => {
        const { flags, ours, theirs } = await keysFor(suite, [our, their] as Roles);
        const grants = JSON.parse(await fixture.mintText(...flagsOf(suite), ...flags)) as Record<
          string,
          Grant
        >;
        const identities = { [our]: ours, [their]: theirs, [stranger]: Identity.draw(suite.curve) };
        const said = attempts([our, their] as Roles, (role) => grants[`grant_${role}`]!, identities);
        const [refuser, code] = STRANGERS[`${suite.pattern} ${stranger}`]!;
        expect(await said[refuser]).toBe(`handshake ${code}`);
        expect(await said[refuser === "client" ? "server" : "client"]).toMatch(CUT);
      },
    );
  },
);
