/** Connections to Redis. The caller passes the driver; this module imports none. */
import { wants } from "../../wire/error.js";

/** A connection to one Redis, by any library. */
export interface RedisConnection {
  /**
   * Sends a command as it is, and gives what Redis answers: bulk strings as bytes, numbers as numbers, lists as arrays, nil as
   * null. It rejects with an error whose message is the one that Redis answered, or with the library's own.
   */
  command(name: string, ...args: readonly (string | Buffer)[]): Promise<unknown>;
  /** Has `run` called whenever a connection was made: the one before may have been to another server. */
  onConnect(run: () => void): void;
}

/** The part of a client of the package `redis` (5 or later) that the store uses. */
export interface NodeRedisClient {
  readonly isReady: boolean;
  sendCommand(args: readonly (string | Buffer)[], options?: { typeMapping?: object }): Promise<any>;
  on(event: "ready", run: () => void): unknown;
}

/** RESP's type of bulk strings, which are to come as bytes. */
const BYTES = { 36: Buffer };

/** Takes a client of the package `redis`, connected or not yet. Its owner closes it. */
export function nodeRedis(client: NodeRedisClient): RedisConnection {
  return {
    // Libraries keep what is asked for while there is no connection, and ask later: nobody waits for it by then.
    command: async (...args) => {
      if (!client.isReady) throw new Error("there is no connection to Redis");
      return client.sendCommand(args, { typeMapping: BYTES });
    },
    onConnect: (run) => void client.on("ready", run),
  };
}

/** The part of a client of the package `ioredis` that the store uses. */
export interface IoRedisClient {
  readonly status: string;
  readonly isCluster?: boolean;
  callBuffer(name: string, ...args: (string | Buffer)[]): Promise<unknown>;
  on(event: "ready", run: () => void): unknown;
}

/**
 * Takes a client of the package `ioredis`, of one server. Its owner closes it.
 *
 * @throws {SealwayError} `usage` for a cluster: gateways spread nonces over it, and this store would look in one place.
 */
export function ioRedis(client: IoRedisClient): RedisConnection {
  wants(client.isCluster !== true, "a cluster is for gateways alone");
  return {
    command: async (name, ...args) => {
      if (client.status !== "ready") throw new Error("there is no connection to Redis");
      return client.callBuffer(name, ...args);
    },
    onConnect: (run) => void client.on("ready", run),
  };
}
