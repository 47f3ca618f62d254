// Package redisstore has sessions and nonces in the Redis that a session authority keeps them in: a store for
// [sealway.MiddlewareConfig], beside [sealway.Authority]. A round trip less, and in exchange the process holds a key that opens all
// stored session keys. spec/redis-store.md
package redisstore
