import type { Fault } from "sealway-shop";
import { Button } from "./button";
import { Facts } from "./facts";

/** What went wrong, whose doing it is, and what to do about it. */
export function FaultCard({ fault, onDismiss }: { fault: Fault; onDismiss: () => void }) {
  return (
    <section className="card fault" aria-labelledby="fault-title">
      <div className="title">
        <h2 id="fault-title">{fault.title}</h2>
        <Button onPress={onDismiss}>Dismiss</Button>
      </div>
      <p>{fault.advice}</p>
      <Facts facts={fault.facts} />
    </section>
  );
}
