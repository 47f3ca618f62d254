/* A fault of C: it reads the byte behind a buffer of Rust. */
#include <stddef.h>
#include <stdint.h>

uint8_t read_behind(const uint8_t *bytes, size_t len) { return bytes[len]; }
