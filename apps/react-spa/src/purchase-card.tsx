import { type FormEvent, useRef, useState } from "react";
import { checkForm, EMPTY_FORM, type FormFaults, type PurchaseForm, type Receipt, type Shop, type ShopState } from "sealway-shop";
import { Button } from "./button";
import { Facts } from "./facts";

/** The form of a purchase, and the opened answer to the last one. */
export function PurchaseCard({ shop, state }: { shop: Shop; state: ShopState }) {
  const [form, setForm] = useState<PurchaseForm>(EMPTY_FORM);
  const [faults, setFaults] = useState<FormFaults>({});
  const element = useRef<HTMLFormElement>(null);
  const isBusy = state.task !== null || state.config === null;

  const submit = (event: FormEvent) => {
    event.preventDefault();
    buy((checked) => shop.purchase(checked));
  };
  const buy = (purchase: (form: PurchaseForm) => Promise<void>) => {
    if (isBusy) return;
    const found = checkForm(form);
    setFaults(found);
    const [first] = Object.keys(found);
    if (first === undefined) void purchase(form);
    else element.current?.querySelector<HTMLInputElement>(`[name="${first}"]`)?.focus();
  };
  const field = (name: keyof PurchaseForm, label: string, inputMode: "text" | "decimal") => (
    <div className="field">
      <label htmlFor={`field-${name}`}>{label}</label>
      <input
        id={`field-${name}`}
        name={name}
        value={form[name]}
        inputMode={inputMode}
        autoComplete="off"
        spellCheck={false}
        aria-required="true"
        aria-invalid={faults[name] !== undefined}
        aria-describedby={faults[name] === undefined ? undefined : `fault-${name}`}
        onChange={(event) => setForm({ ...form, [name]: event.target.value })}
      />
      {faults[name] !== undefined && <p id={`fault-${name}`}>{faults[name]}</p>}
    </div>
  );

  return (
    <section className="card" aria-labelledby="purchase-title">
      <h2 id="purchase-title">Purchase</h2>
      <form ref={element} noValidate onSubmit={submit}>
        <div className="fields">
          {field("schemeCode", "Scheme code", "text")}
          {field("amount", "Amount", "decimal")}
        </div>
        <div className="buttons">
          <Button isMain type="submit" isOff={isBusy}>
            {state.task === "purchase" ? "Purchasing…" : "Purchase"}
          </Button>
          {state.config?.oneShotPins !== undefined && (
            <Button isOff={isBusy} onPress={() => buy((checked) => shop.purchaseOnce(checked))}>
              {state.task === "purchase-once" ? "Purchasing…" : "Purchase without session"}
            </Button>
          )}
        </div>
      </form>
      <div className="answer">
        <Answer receipt={state.receipt} />
      </div>
    </section>
  );
}

function Answer({ receipt }: { receipt: Receipt | null }) {
  if (receipt === null) return <p className="quiet">No answer yet.</p>;
  return (
    <>
      <div className="title">
        <h3>Answer</h3>
        <span className={`pill ${receipt.ok ? "good" : "bad"}`}>Status {receipt.status}</span>
      </div>
      <Facts facts={receipt.fields} />
      <details>
        <summary>Body as opened</summary>
        <pre tabIndex={0} role="region" aria-label="Body as opened">
          {receipt.body}
        </pre>
      </details>
    </>
  );
}
