/** The client of Sealway's sealed sessions (`spec/session.md`, `spec/session-3.md`). */
export { SealwayError } from "./wire/error.js";
