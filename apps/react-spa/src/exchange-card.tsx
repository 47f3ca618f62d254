import {
  bytes,
  RESEND_LABELS,
  type Resend,
  type ResendKind,
  type Shop,
  type ShopState,
  utf8Length,
  type WireBody,
} from "sealway-shop";
import { Button } from "./button";
import { Facts } from "./facts";

const KINDS: readonly ResendKind[] = ["replay", "tamper"];

/** The last purchase as bytes on the network, next to what they say, and two ways of sending those bytes again. */
export function ExchangeCard({ shop, state }: { shop: Shop; state: ShopState }) {
  const { exchange, task } = state;
  const isBusy = task !== null || exchange === null;
  return (
    <section className="card across" aria-labelledby="exchange-title">
      <div className="title">
        <h2 id="exchange-title">On the network</h2>
        <p className="quiet">What anyone between this page and the service sees</p>
      </div>
      {exchange === null ? (
        <p className="quiet">No bytes yet. Make a purchase.</p>
      ) : (
        <>
          <Side name="Request" note={exchange.target} wire={exchange.request} text={exchange.requestText} />
          <Side name="Answer" note={`HTTP ${exchange.status}`} wire={exchange.answer} text={exchange.answerText} />
        </>
      )}
      <div className="buttons">
        {KINDS.map((kind) => (
          <Button key={kind} isOff={isBusy} onPress={() => void shop.resend(kind)}>
            {RESEND_LABELS[kind]}
          </Button>
        ))}
      </div>
      <p className="quiet">Replay sends the sealed bytes of the request again. Tamper flips one bit of them first.</p>
      {state.resends.map((resend) => (
        <Outcome key={resend.kind} resend={resend} />
      ))}
    </section>
  );
}

function Side({ name, note, wire, text }: { name: string; note: string; wire: WireBody; text: string }) {
  return (
    <div className="side">
      <div className="title">
        <h3>{name}</h3>
        <code>{note}</code>
      </div>
      <div className="pair">
        <div>
          <p className="quiet">On the network: {bytes(wire.length)}, sealed</p>
          <pre tabIndex={0} role="region" aria-label={`${name} on the network`}>
            {wire.hex}
          </pre>
        </div>
        <div>
          <p className="quiet">What it says: {bytes(utf8Length(text))}</p>
          <pre tabIndex={0} role="region" aria-label={`${name} as plain text`}>
            {text}
          </pre>
        </div>
      </div>
      <details>
        <summary>Headers of the seal: {name.toLowerCase()}</summary>
        <Facts facts={wire.headers} />
      </details>
    </div>
  );
}

function Outcome({ resend }: { resend: Resend }) {
  return (
    <section className="answer" aria-label={`Outcome of ${RESEND_LABELS[resend.kind]}`}>
      <div className="title">
        <h3>{RESEND_LABELS[resend.kind]}</h3>
        <span className={`pill ${resend.isRefused ? "good" : "bad"}`}>
          {resend.isRefused ? "Refused" : "Accepted"}: status {resend.status}
        </span>
      </div>
      <p>{resend.sent}</p>
      <Facts facts={resend.facts} />
    </section>
  );
}
