package dev.sealway.wire;

/** A header: its name, compared without case, and its value, whose characters are bytes (ISO 8859-1). */
public record Header(String name, String value) {
}
