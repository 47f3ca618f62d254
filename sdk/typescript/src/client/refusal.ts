/** Answers in plain to sealed requests. They carry no signature. */
import { firstOf, type HeaderList } from "../wire/headers.js";

/** Host and head of a response. */
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
