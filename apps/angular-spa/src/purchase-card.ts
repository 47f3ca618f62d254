import { Component, computed, ElementRef, inject, signal } from "@angular/core";
import { checkForm, EMPTY_FORM, type FormFaults, type PurchaseForm } from "sealway-shop";
import { Button } from "./button";
import { Facts } from "./facts";
import { injectState, SHOP } from "./shop-state";

/** The form of a purchase, and the opened answer to the last one. */
@Component({
  selector: "section[sealwayPurchase]",
  imports: [Button, Facts],
  host: { class: "card", "aria-labelledby": "purchase-title" },
  template: `
    <h2 id="purchase-title">Purchase</h2>
    <form novalidate (submit)="submit($event)">
      <div class="fields">
        @for (field of fields; track field.name) {
          <div class="field">
            <label [attr.for]="'field-' + field.name">{{ field.label }}</label>
            <input
              #box
              [id]="'field-' + field.name"
              [name]="field.name"
              [value]="form()[field.name]"
              [attr.inputmode]="field.inputMode"
              autocomplete="off"
              spellcheck="false"
              aria-required="true"
              [attr.aria-invalid]="faults()[field.name] !== undefined"
              [attr.aria-describedby]="faults()[field.name] === undefined ? null : 'fault-' + field.name"
              (input)="set(field.name, box.value)"
            />
            @if (faults()[field.name]; as fault) {
              <p [id]="'fault-' + field.name">{{ fault }}</p>
            }
          </div>
        }
      </div>
      <div class="buttons">
        <button type="submit" class="main" [isOff]="isBusy()">{{ state().task === "purchase" ? "Purchasing…" : "Purchase" }}</button>
        @if (state().config?.oneShotPins) {
          <button type="button" [isOff]="isBusy()" (press)="once()">
            {{ state().task === "purchase-once" ? "Purchasing…" : "Purchase without session" }}
          </button>
        }
      </div>
    </form>
    <div class="answer">
      @if (state().receipt; as receipt) {
        <div class="title">
          <h3>Answer</h3>
          <span class="pill" [class.good]="receipt.ok" [class.bad]="!receipt.ok">Status {{ receipt.status }}</span>
        </div>
        <dl sealwayFacts [facts]="receipt.fields"></dl>
        <details>
          <summary>Body as opened</summary>
          <pre tabindex="0" role="region" aria-label="Body as opened">{{ receipt.body }}</pre>
        </details>
      } @else {
        <p class="quiet">No answer yet.</p>
      }
    </div>
  `,
})
export class PurchaseCard {
  protected readonly fields = [
    { name: "schemeCode", label: "Scheme code", inputMode: "text" },
    { name: "amount", label: "Amount", inputMode: "decimal" },
  ] as const;
  protected readonly state = injectState();
  protected readonly form = signal<PurchaseForm>(EMPTY_FORM);
  protected readonly faults = signal<FormFaults>({});
  protected readonly isBusy = computed(() => this.state().task !== null || this.state().config === null);
  readonly #shop = inject(SHOP);
  readonly #element: HTMLElement = inject(ElementRef).nativeElement;

  protected set(name: keyof PurchaseForm, value: string): void {
    this.form.update((form) => ({ ...form, [name]: value }));
  }

  protected submit(event: Event): void {
    event.preventDefault();
    this.#buy((form) => this.#shop.purchase(form));
  }

  protected once(): void {
    this.#buy((form) => this.#shop.purchaseOnce(form));
  }

  #buy(purchase: (form: PurchaseForm) => Promise<void>): void {
    if (this.isBusy()) return;
    const found = checkForm(this.form());
    this.faults.set(found);
    const [first] = Object.keys(found);
    if (first === undefined) void purchase(this.form());
    else this.#element.querySelector<HTMLInputElement>(`[name="${first}"]`)?.focus();
  }
}
