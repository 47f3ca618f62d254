/** What is typed into the form. */
export interface PurchaseForm {
  readonly schemeCode: string;
  readonly amount: string;
}

/** What is wrong with a form, by field. */
export type FormFaults = Partial<Record<keyof PurchaseForm, string>>;

export const EMPTY_FORM: PurchaseForm = { schemeCode: "AEF", amount: "5000" };
export const PURCHASE_PATH = "/transaction/purchase";

const SCHEME_CHARS_MAX = 64;
const AMOUNT_MAX = 1e12;
const SHOWN_CHARS_MAX = 16 * 1024;

/** Checks a form as its reader would want to be told. */
export function checkForm(form: PurchaseForm): FormFaults {
  const faults: FormFaults = {};
  const scheme = form.schemeCode.trim();
  if (scheme === "") faults.schemeCode = "Enter a scheme code, such as AEF.";
  else if (scheme.length > SCHEME_CHARS_MAX) faults.schemeCode = `Use at most ${SCHEME_CHARS_MAX} characters.`;
  const amount = Number(form.amount);
  if (form.amount.trim() === "" || !Number.isFinite(amount)) faults.amount = "Enter an amount as a number.";
  else if (amount <= 0) faults.amount = "Enter an amount above zero.";
  else if (amount > AMOUNT_MAX) faults.amount = "Enter a smaller amount.";
  return faults;
}

/** The body of the call, for a form that `checkForm` has nothing against. */
export function purchaseBody(form: PurchaseForm): string {
  return JSON.stringify({ schemeCode: form.schemeCode.trim(), amount: Number(form.amount) });
}

/** An answer as it is shown. */
export interface Receipt {
  readonly status: number;
  readonly ok: boolean;
  /** Members of the answer as pairs of name and value, in the answer's order; empty if it is no JSON object. */
  readonly fields: readonly (readonly [string, string])[];
  /** The opened body, indented if it is JSON. */
  readonly body: string;
}

const FIELD_LABELS: Readonly<Record<string, string>> = {
  status: "Outcome",
  transactionId: "Transaction",
  schemeCode: "Scheme",
  amount: "Amount",
  timestamp: "Time",
  message: "Message",
};

export function receiptOf(status: number, text: string): Receipt {
  const ok = status >= 200 && status < 300;
  const shown = text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
  try {
    const members: unknown = JSON.parse(text);
    if (typeof members === "object" && members !== null && !Array.isArray(members)) {
      const fields = Object.entries(members).map(([name, value]): [string, string] => [
        FIELD_LABELS[name] ?? name,
        typeof value === "string" ? value : JSON.stringify(value),
      ]);
      return { status, ok, fields, body: JSON.stringify(members, null, 2).slice(0, SHOWN_CHARS_MAX) };
    }
  } catch {
    // Shown as it came.
  }
  return { status, ok, fields: [], body: shown };
}

/** The shop's own refusal, where a benchmark wants a purchase. */
export class PurchaseRefused extends Error {
  override readonly name = "PurchaseRefused";
  readonly status: number;

  constructor(status: number) {
    super(`the shop answered with status ${status}`);
    this.status = status;
  }
}
