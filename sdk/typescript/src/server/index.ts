/** The server's side of sealed sessions: middleware around ordinary handlers. */
export { SealwayError } from "../wire/error.js";
