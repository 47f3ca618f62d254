/** Messages encrypted as card schemes do (`spec/mle.md`): JWE in the bodies of requests and answers, for Node. */
export { SealwayError } from "../wire/error.js";
export { type MleClientOptions, mleFetch } from "./client.js";
export { MleCodec, type MleOptions } from "./codec.js";
export type { MleEnc } from "./content.js";
export {
  type KidSource,
  type MleAlg,
  OpeningKey,
  type OpeningKeyOptions,
  SealingKey,
  type SealingKeyOptions,
} from "./keys.js";
export {
  type GenericJweOptions,
  genericJwe,
  type IatUnit,
  MLE_PROFILES,
  type MleMessage,
  type MleProfile,
  type MleSide,
} from "./profile.js";
export { type MleClass, MleRefusal } from "./refusal.js";
export {
  type MleReport,
  type MleServerOptions,
  mleExpress,
  mleFastify,
  mleHandler,
  type PlainAnswers,
} from "./server.js";
