/** Header names, forms of identifiers, base64, JSON and errors of the wires. */
package dev.sealway.wire;
