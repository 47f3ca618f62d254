/** What is made of an answer in plain where a sealed one was due. Nobody has signed it. */
import { firstOf, type HeaderList } from "../wire/headers.js";

/** Where an answer came from, and its head. */
export interface ResponseHead {
  readonly host: string;
  readonly status: number;
  readonly headers: HeaderList;
}

/** Says of an answer that is of no form of ours where it may come from. */
export function notOurs({ host, status, headers }: ResponseHead): string {
  const type = firstOf(headers, "Content-Type") ?? "";
  return `${host} answered ${status}, ${type}: a captive portal, or another service?`;
}
