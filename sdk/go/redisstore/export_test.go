package redisstore

// Script is what Redis runs, for the test that holds it to the spec.
const Script = script
