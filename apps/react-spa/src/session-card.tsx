import { countdown, counted, PHASE_LABELS, type SessionView, type Shop, type ShopState, shortened } from "sealway-shop";
import { Button } from "./button";

const TONES = { none: "quiet", active: "good", ending: "warn", over: "bad" } as const;

/** How the session stands, whom the page trusts, and the buttons that start, end and wipe. */
export function SessionCard({ shop, state }: { shop: Shop; state: ShopState }) {
  const { session, task, config } = state;
  const phase = session?.phase ?? "none";
  const isBusy = task !== null || config === null;
  return (
    <section className="card" aria-labelledby="session-title">
      <div className="title">
        <h2 id="session-title">Session</h2>
        <span className={`pill ${TONES[phase]}`}>{task === "initialise" ? "Starting…" : PHASE_LABELS[phase]}</span>
      </div>
      {session === null ? (
        <p className="quiet">The first purchase starts a session, or start one now. Its keys stay in this browser.</p>
      ) : (
        <SessionFacts session={session} />
      )}
      <TrustNotice state={state} />
      <div className="buttons">
        <Button isMain={session === null || phase === "over"} isOff={isBusy} onPress={() => void shop.initialise()}>
          {session === null ? "Start session" : "Start anew"}
        </Button>
        <Button isOff={isBusy || session === null} onPress={() => void shop.end()}>
          End session
        </Button>
        <Button isOff={config === null} onPress={() => shop.clear()}>
          Clear everything
        </Button>
      </div>
    </section>
  );
}

function SessionFacts({ session }: { session: SessionView }) {
  return (
    <>
      <div>
        <p className="left">
          <strong role="timer" aria-label="Time left">
            {countdown(session.remainingMs)}
          </strong>
          <span className="quiet">of {countdown(session.lifeMs)} left</span>
        </p>
        <progress aria-hidden="true" max={session.lifeMs} value={session.remainingMs} />
      </div>
      <dl className="facts">
        <dt>Session</dt>
        <dd>
          <code title={session.id}>{shortened(session.id, 10)}</code>
        </dd>
        <dt>Agreed by</dt>
        <dd>
          Wire {session.wire}, {session.suite}
        </dd>
        <dt>Signed by</dt>
        <dd>
          <code>{session.keyId || "nobody"}</code>
        </dd>
        <dt>Known as</dt>
        <dd>{session.auth === "none" ? "anonymous" : session.auth}</dd>
      </dl>
    </>
  );
}

function TrustNotice({ state }: { state: ShopState }) {
  if (state.config === null) return null;
  if (state.isPinned) return <p className="quiet">Trusts {counted(state.config.pins.length, "pinned key")} and no other.</p>;
  return (
    <p className="notice">
      <strong className="warn">Trust at first use.</strong> No key is pinned, so whatever key the service shows first is trusted
      until this page is cleared or closed. To be sure, put the service's key id under <code>pins</code> in{" "}
      <code>config.json</code>.
    </p>
  );
}
