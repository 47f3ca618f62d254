/**
 * Channels: two peers, end to end, over a relay that can read nothing, or directly. SPEC channel.md, relay.md, rpc.md
 *
 *     parseGrant -> attach -> Channel -> open / accept -> Stream -> bytes, or Rpc (`sealway-channel/rpc`)
 */
export { Channel, type IncomingStream, type Liveness } from "./channel.js";
export {
  acceptDirect,
  attach,
  type ChannelOptions,
  connectDirect,
  drawInstance,
  type Step,
} from "./connect.js";
export { type ControlOptions, controlGrants, type Grants, parseGrantPair } from "./control.js";
export { ChannelError, type Stage } from "./error.js";
export { type DirectInfo, type Grant, parseDirectInfo, parseGrant } from "./grant.js";
export { Handshake, type Progress, type Role } from "./handshake.js";
export type { Hello } from "./hello.js";
export { Identity } from "./identity.js";
export { Attempts, type Backoff, Connector, Listener, type ReconnectOptions } from "./reconnect.js";
export type { Content, Opener, Sealer } from "./record.js";
export { Secret } from "./secret.js";
export { type ChannelSettings, channelSettings, drawRandoms, type HandshakeRandoms } from "./settings.js";
export { Stream } from "./stream.js";
export { allSuites, type Curve, type Suite, suiteById } from "./suite.js";
export type { WebSocketLike } from "./websocket.js";
