/** The messages of `spec/broker.proto`, and what is asked of a broker in which message. A test holds it against the file. */
import { fromJSON, type PackageDefinition } from "@grpc/proto-loader";

/** A field is `name type number`; `*` repeats it, `?` may be absent, `|name` is one of a choice. */
export const MESSAGES = {
  Descriptor:
    "profile string 1, operation string 2, algorithm string 3, keyId string 4, keyVersion uint32 5, deprecation Deprecation 6",
  Deprecation: "replacedBy string 1, deprecatedSince string 2, removeAfter string 3, reason string 4",
  HashRequest: "profile string 1, inputs bytes* 2",
  HashResponse: "descriptor Descriptor 1, digests bytes* 2",
  SignCertificateRequest:
    "profile string 1, csr bytes 2, caKeyRef string 3, caCertificate bytes 4, notBefore int64? 5, notAfter int64? 6, subject string? 7, crlDistributionPoints string* 8",
  SignCertificateResponse: "descriptor Descriptor 1, der bytes 2",
  Plain: "plaintext bytes 1, aad bytes 2, nonce bytes 3",
  Cipher: "keyVersion uint32 1, nonce bytes 2, ciphertext bytes 3, tag bytes 4, aad bytes 5",
  EncryptRequest: "profile string 1, keyId string 2, plains Plain* 3",
  EncryptResponse: "descriptor Descriptor 1, ciphers Cipher* 2",
  DecryptRequest: "profile string 1, keyId string 2, ciphers Cipher* 3",
  DecryptResponse: "descriptor Descriptor 1, opened Opened* 2",
  Opened: "plaintext bytes|result 1, refusal Refusal|result 2",
  Refusal: "code uint32 1, message string 2",
  RewrapRequest: "profile string 1, keyId string 2, ciphers Cipher* 3",
  RewrapResponse: "descriptor Descriptor 1, rewrapped Rewrapped* 2",
  Rewrapped: "cipher Cipher|result 1, refusal Refusal|result 2",
  SignRequest: "profile string 1, keyId string 2, inputs bytes* 3, prehashed bool 4",
  SignResponse: "descriptor Descriptor 1, signatures bytes* 2",
  Signed: "input bytes 1, signature bytes 2, keyVersion uint32 3",
  VerifyRequest: "profile string 1, keyId string 2, signed Signed* 3, prehashed bool 4",
  VerifyResponse: "descriptor Descriptor 1, valid bool* 2",
  MacRequest: "profile string 1, keyId string 2, inputs bytes* 3",
  MacResponse: "descriptor Descriptor 1, tags bytes* 2",
  VerifyMacRequest: "profile string 1, keyId string 2, signed Signed* 3",
  VerifyMacResponse: "descriptor Descriptor 1, valid bool* 2",
  Derivation: "salt bytes 1, info bytes 2, length uint32 3",
  DeriveRequest: "profile string 1, keyId string 2, keyVersion uint32 3, derivations Derivation* 4",
  DeriveResponse: "descriptor Descriptor 1, outputs bytes* 2",
  RandomRequest: "profile string 1, length uint32 2, count uint32 3",
  RandomResponse: "descriptor Descriptor 1, outputs bytes* 2",
  EncapsulateRequest: "profile string 1, keyId string|to 2, publicKey bytes|to 3, count uint32 4",
  Encapsulated: "ciphertext bytes 1, sharedSecret bytes 2",
  EncapsulateResponse: "descriptor Descriptor 1, encapsulated Encapsulated* 2",
  DecapsulateRequest: "profile string 1, keyId string 2, keyVersion uint32 3, ciphertexts bytes* 4",
  DecapsulateResponse: "descriptor Descriptor 1, sharedSecrets bytes* 2",
  WrappedKey: "encryptedKey bytes 1, length uint32 2",
  UnwrapRequest: "profile string 1, keyId string 2, keyVersion uint32 3, wrapped WrappedKey* 4",
  UnwrapResponse: "descriptor Descriptor 1, contentKeys bytes* 2",
  InformationRequest: "",
  InformationResponse:
    "version string 1, module string 2, moduleVersion string 3, certificate string 4, isFips bool 5, profiles string* 6, operations ProfileOperations* 7",
  ProfileOperations:
    "profile string 1, hashData string 2, signData string 3, signsDigests bool 4, unwrap string 5, random bool 6",
  KeyVersion: "version uint32 1, state KeyState 2, createdMs uint64 3",
  Key: "keyId string 1, algorithm string 2, versions KeyVersion* 3, isImported bool 4, currentVersion uint32 5, publicKey bytes 6",
  KeyResponse: "key Key 1",
  GenerateRequest: "keyId string 1, algorithm string 2",
  ImportRequest: "keyId string 1, algorithm string 2, material bytes 3",
  ListRequest: "after string 1, limit uint32 2, profile string 3",
  ListResponse: "keys Key* 1, hasMore bool 2",
  RotateRequest: "keyId string 1, material bytes 2",
  DisableRequest: "keyId string 1, version uint32 2",
  EnableRequest: "keyId string 1, version uint32 2",
  PublicKeyRequest: "keyId string 1, version uint32 2",
  PublicKeyResponse: "version uint32 1, der bytes 2",
} as const;

/** Operations by service, with the messages that they take and give. */
export const OPERATIONS = {
  Broker: {
    Hash: "Hash",
    SignCertificate: "SignCertificate",
    Encrypt: "Encrypt",
    Decrypt: "Decrypt",
    Rewrap: "Rewrap",
    Sign: "Sign",
    Verify: "Verify",
    Mac: "Mac",
    VerifyMac: "VerifyMac",
    Derive: "Derive",
    Random: "Random",
    Encapsulate: "Encapsulate",
    Decapsulate: "Decapsulate",
    Unwrap: "Unwrap",
    Information: "Information",
  },
  Keys: {
    Generate: "Key",
    Import: "Key",
    List: "List",
    Rotate: "Key",
    Disable: "Key",
    Enable: "Key",
    PublicKey: "PublicKey",
  },
} as const;

type Messages = typeof MESSAGES;
type Split<S> = S extends `${infer Field}, ${infer Rest}` ? Field | Split<Rest> : S extends "" ? never : S;
type NameOf<F> = F extends `${infer Name} ${string}` ? Name : never;
type KindOf<F> = F extends `${string} ${infer Kind} ${number}` ? Kind : never;

/** State of a version of a key. */
export type KeyState = "KEY_STATE_UNSPECIFIED" | "KEY_STATE_ENABLED" | "KEY_STATE_DISABLED";

type Scalar<T> = T extends "string"
  ? string
  : T extends "bytes"
    ? Uint8Array
    : T extends "bool"
      ? boolean
      : T extends "uint32" | "int64" | "uint64"
        ? number
        : T extends "KeyState"
          ? KeyState
          : never;

type ValueOf<K, D extends "in" | "out"> = K extends `${infer T}*`
  ? readonly ValueOf<T, D>[]
  : K extends `${infer T}?` | `${infer T}|${string}`
    ? ValueOf<T, D>
    : K extends keyof Messages
      ? D extends "in"
        ? Input<K>
        : Message<K>
      : Scalar<K>;

/** Fields that have a meaning where they are left out. */
type Left =
  | "aad"
  | "nonce"
  | "keyVersion"
  | "version"
  | "count"
  | "after"
  | "limit"
  | "salt"
  | "info"
  | "prehashed";
type IsOptional<F> =
  KindOf<F> extends `${string}?` | `${string}|${string}`
    ? true
    : NameOf<F> extends Left | "crlDistributionPoints"
      ? true
      : F extends "material bytes 2" | "profile string 3"
        ? true
        : false;

/** A response of the broker. Of a choice one member is present; an absent message is null. */
export type Message<M extends keyof Messages> = {
  readonly [F in Split<Messages[M]> as NameOf<F>]: KindOf<F> extends
    | `${string}|${string}`
    | "Deprecation"
    | "Descriptor"
    ? ValueOf<KindOf<F>, "out"> | null | undefined
    : ValueOf<KindOf<F>, "out">;
};

/** A request to the broker. */
export type Input<M extends keyof Messages> = {
  readonly [F in Split<Messages[M]> as IsOptional<F> extends true ? never : NameOf<F>]: ValueOf<
    KindOf<F>,
    "in"
  >;
} & {
  readonly [F in Split<Messages[M]> as IsOptional<F> extends true ? NameOf<F> : never]?:
    | ValueOf<KindOf<F>, "in">
    | undefined;
};

interface Field {
  type: string;
  id: number;
  rule?: "repeated";
  options?: { proto3_optional: true };
}

/** One message as protobufjs describes it. */
export function describe(fields: string): {
  fields: Record<string, Field>;
  oneofs?: Record<string, { oneof: string[] }>;
} {
  const out: Record<string, Field> = {};
  const oneofs: Record<string, { oneof: string[] }> = {};
  for (const field of fields === "" ? [] : fields.split(", ")) {
    const [name, kind, id] = field.split(" ") as [string, string, string];
    const [, type, mark] = /^(\w+)(.*)$/.exec(kind) as unknown as [string, string, string];
    out[name] = { type, id: Number(id) };
    if (mark === "*") out[name].rule = "repeated";
    if (mark === "?") {
      out[name].options = { proto3_optional: true };
      oneofs[`_${name}`] = { oneof: [name] };
    } else if (mark.startsWith("|")) {
      const choice = mark.slice(1);
      oneofs[choice] = { oneof: [...(oneofs[choice]?.oneof ?? []), name] };
    }
  }
  return Object.keys(oneofs).length === 0 ? { fields: out } : { oneofs, fields: out };
}

/** The services as protobufjs describes them: `spec/broker.proto`, the health of gRPC, and the older wires' benchmark. */
export function schema() {
  const messages = Object.entries(MESSAGES).map(([name, fields]) => [name, describe(fields)]);
  const services = Object.entries(OPERATIONS).map(([service, operations]) => {
    const methods = Object.entries(operations).map(([name, answer]) => {
      return [name, { requestType: `${name}Request`, responseType: `${answer}Response` }];
    });
    return [service, { methods: Object.fromEntries(methods) }];
  });
  const values = { KEY_STATE_UNSPECIFIED: 0, KEY_STATE_ENABLED: 1, KEY_STATE_DISABLED: 2 };
  const v1 = { ...Object.fromEntries([...services, ...messages]), KeyState: { values } };
  return {
    nested: {
      sealway: { nested: { broker: { nested: { v1: { nested: v1 } } } } },
      grpc: { nested: { health: { nested: { v1: { nested: HEALTH } } } } },
      CryptoBroker: { nested: BENCHMARK },
    },
  };
}

const STATUS = { values: { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } };
const HEALTH = {
  Health: { methods: { Check: { requestType: "HealthCheckRequest", responseType: "HealthCheckResponse" } } },
  HealthCheckRequest: describe("service string 1"),
  HealthCheckResponse: { ...describe("status ServingStatus 1"), nested: { ServingStatus: STATUS } },
};
const BENCHMARK = {
  CryptoGrpcDev: {
    methods: { Benchmark: { requestType: "BenchmarkRequest", responseType: "BenchmarkResponse" } },
  },
  BenchmarkRequest: { fields: {} },
  BenchmarkResponse: describe("benchmarkResults string 1"),
};

let definition: PackageDefinition | undefined;

/** The services with their readers and writers, for gRPC. */
export function services(): PackageDefinition {
  const options = { longs: Number, enums: String, defaults: true, arrays: true, oneofs: true };
  definition ??= fromJSON(schema() as never, options);
  return definition;
}
