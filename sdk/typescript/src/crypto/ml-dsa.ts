/** Verification of ML-DSA (FIPS 204) by a library, which is loaded when it is needed. */
import { ml_dsa65, ml_dsa87 } from "@noble/post-quantum/ml-dsa.js";

/** Verifies a signature with an empty context; key and signature have the lengths of the algorithm. */
export function verifyMlDsa(
  name: "ML-DSA-65" | "ML-DSA-87",
  publicKey: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  return (name === "ML-DSA-65" ? ml_dsa65 : ml_dsa87).verify(signature, message, publicKey);
}
