import { Component, input, output } from "@angular/core";
import type { Fault } from "sealway-shop";
import { Facts } from "./facts";

/** What went wrong, whose doing it is, and what to do about it. */
@Component({
  selector: "section[sealwayFault]",
  imports: [Facts],
  host: { class: "card fault", "aria-labelledby": "fault-title" },
  template: `
    <div class="title">
      <h2 id="fault-title">{{ fault().title }}</h2>
      <button type="button" (click)="dismiss.emit()">Dismiss</button>
    </div>
    <p>{{ fault().advice }}</p>
    <dl sealwayFacts [facts]="fault().facts"></dl>
  `,
})
export class FaultCard {
  readonly fault = input.required<Fault>();
  readonly dismiss = output();
}
