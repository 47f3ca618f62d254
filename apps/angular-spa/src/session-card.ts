import { Component, computed, inject } from "@angular/core";
import { countdown, counted, PHASE_LABELS, shortened } from "sealway-shop";
import { Button } from "./button";
import { injectState, SHOP } from "./shop-state";

const TONES = { none: "quiet", active: "good", ending: "warn", over: "bad" } as const;

/** How the session stands, whom the page trusts, and the buttons that start, end and wipe. */
@Component({
  selector: "section[sealwaySession]",
  imports: [Button],
  host: { class: "card", "aria-labelledby": "session-title" },
  template: `
    <div class="title">
      <h2 id="session-title">Session</h2>
      <span class="pill {{ tone() }}">{{ label() }}</span>
    </div>
    @if (state().session; as session) {
      <div>
        <p class="left">
          <strong role="timer" aria-label="Time left">{{ countdown(session.remainingMs) }}</strong>
          <span class="quiet">of {{ countdown(session.lifeMs) }} left</span>
        </p>
        <progress aria-hidden="true" [max]="session.lifeMs" [value]="session.remainingMs"></progress>
      </div>
      <dl class="facts">
        <dt>Session</dt>
        <dd><code [title]="session.id">{{ shortened(session.id, 10) }}</code></dd>
        <dt>Agreed by</dt>
        <dd>Wire {{ session.wire }}, {{ session.suite }}</dd>
        <dt>Signed by</dt>
        <dd><code>{{ session.keyId || "nobody" }}</code></dd>
        <dt>Known as</dt>
        <dd>{{ session.auth === "none" ? "anonymous" : session.auth }}</dd>
      </dl>
    } @else {
      <p class="quiet">The first purchase starts a session, or start one now. Its keys stay in this browser.</p>
    }
    @if (state().config; as config) {
      @if (state().isPinned) {
        <p class="quiet">Trusts {{ counted(config.pins.length, "pinned key") }} and no other.</p>
      } @else {
        <p class="notice">
          <strong class="warn">Trust at first use.</strong> No key is pinned, so whatever key the service shows first is
          trusted until this page is cleared or closed. To be sure, put the service's key id under <code>pins</code> in
          <code>config.json</code>.
        </p>
      }
    }
    <div class="buttons">
      <button type="button" [class.main]="phase() === 'none' || phase() === 'over'" [isOff]="isBusy()" (press)="shop.initialise()">
        {{ state().session === null ? "Start session" : "Start anew" }}
      </button>
      <button type="button" [isOff]="isBusy() || state().session === null" (press)="shop.end()">End session</button>
      <button type="button" [isOff]="state().config === null" (press)="shop.clear()">Clear everything</button>
    </div>
  `,
})
export class SessionCard {
  protected readonly shop = inject(SHOP);
  protected readonly state = injectState();
  protected readonly phase = computed(() => this.state().session?.phase ?? "none");
  protected readonly tone = computed(() => TONES[this.phase()]);
  protected readonly label = computed(() => (this.state().task === "initialise" ? "Starting…" : PHASE_LABELS[this.phase()]));
  protected readonly isBusy = computed(() => this.state().task !== null || this.state().config === null);
  protected readonly countdown = countdown;
  protected readonly counted = counted;
  protected readonly shortened = shortened;
}
