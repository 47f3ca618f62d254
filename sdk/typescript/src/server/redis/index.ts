/** Sessions and claims in the Redis of an authority (`spec/redis-store.md`), with a client of yours. */
export {
  type IoRedisClient,
  ioRedis,
  type NodeRedisClient,
  nodeRedis,
  type RedisConnection,
} from "./connection.js";
export { type RedisOptions, RedisStore } from "./store.js";
export type { KekOptions } from "./value.js";
