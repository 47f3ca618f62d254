/** Sessions and nonces in the Redis that a session authority keeps them in. {@code spec/redis-store.md}. */
package dev.sealway.redis;
