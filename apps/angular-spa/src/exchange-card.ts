import { Component, computed, inject } from "@angular/core";
import { bytes, RESEND_LABELS, type ResendKind, utf8Length } from "sealway-shop";
import { Button } from "./button";
import { Facts } from "./facts";
import { injectState, SHOP } from "./shop-state";

/** The last purchase as bytes on the network, next to what they say, and two ways of sending those bytes again. */
@Component({
  selector: "section[sealwayExchange]",
  imports: [Button, Facts],
  host: { class: "card across", "aria-labelledby": "exchange-title" },
  template: `
    <div class="title">
      <h2 id="exchange-title">On the network</h2>
      <p class="quiet">What anyone between this page and the service sees</p>
    </div>
    @for (side of sides(); track side.name) {
      <div class="side">
        <div class="title">
          <h3>{{ side.name }}</h3>
          <code>{{ side.note }}</code>
        </div>
        <div class="pair">
          <div>
            <p class="quiet">On the network: {{ bytes(side.wire.length) }}, sealed</p>
            <pre tabindex="0" role="region" [attr.aria-label]="side.name + ' on the network'">{{ side.wire.hex }}</pre>
          </div>
          <div>
            <p class="quiet">What it says: {{ bytes(utf8Length(side.text)) }}</p>
            <pre tabindex="0" role="region" [attr.aria-label]="side.name + ' as plain text'">{{ side.text }}</pre>
          </div>
        </div>
        <details>
          <summary>Headers of the seal: {{ side.name.toLowerCase() }}</summary>
          <dl sealwayFacts [facts]="side.wire.headers"></dl>
        </details>
      </div>
    } @empty {
      <p class="quiet">No bytes yet. Make a purchase.</p>
    }
    <div class="buttons">
      @for (kind of kinds; track kind) {
        <button type="button" [isOff]="isBusy()" (press)="resend(kind)">{{ labels[kind] }}</button>
      }
    </div>
    <p class="quiet">Replay sends the sealed bytes of the request again. Tamper flips one bit of them first.</p>
    @for (resend of state().resends; track resend.kind) {
      <section class="answer" [attr.aria-label]="'Outcome of ' + labels[resend.kind]">
        <div class="title">
          <h3>{{ labels[resend.kind] }}</h3>
          <span class="pill" [class.good]="resend.isRefused" [class.bad]="!resend.isRefused"
            >{{ resend.isRefused ? "Refused" : "Accepted" }}: status {{ resend.status }}</span
          >
        </div>
        <p>{{ resend.sent }}</p>
        <dl sealwayFacts [facts]="resend.facts"></dl>
      </section>
    }
  `,
})
export class ExchangeCard {
  protected readonly kinds: readonly ResendKind[] = ["replay", "tamper"];
  protected readonly labels = RESEND_LABELS;
  protected readonly bytes = bytes;
  protected readonly utf8Length = utf8Length;
  protected readonly state = injectState();
  protected readonly isBusy = computed(() => this.state().task !== null || this.state().exchange === null);
  protected readonly sides = computed(() => {
    const { exchange } = this.state();
    if (exchange === null) return [];
    const { target, status, request, requestText, answer, answerText } = exchange;
    return [
      { name: "Request", note: target, wire: request, text: requestText },
      { name: "Answer", note: `HTTP ${status}`, wire: answer, text: answerText },
    ];
  });
  readonly #shop = inject(SHOP);

  protected resend(kind: ResendKind): void {
    void this.#shop.resend(kind);
  }
}
