import { Component, inject } from "@angular/core";
import { BenchmarkCard } from "./benchmark-card";
import { ConsoleCard } from "./console-card";
import { ExchangeCard } from "./exchange-card";
import { FaultCard } from "./fault-card";
import { MetricsCard } from "./metrics-card";
import { PurchaseCard } from "./purchase-card";
import { SessionCard } from "./session-card";
import { injectState, SHOP } from "./shop-state";

/** The whole page. */
@Component({
  selector: "sealway-shop",
  imports: [BenchmarkCard, ConsoleCard, ExchangeCard, FaultCard, MetricsCard, PurchaseCard, SessionCard],
  template: `
    <div class="shop">
      <header class="bar">
        <div>
          <h1>Sealway<small>demo shop</small></h1>
          <p class="quiet">Service <code>{{ state().config?.serverUrl ?? "…" }}</code></p>
        </div>
      </header>
      <main class="board">
        <p class="unseen" role="status">{{ state().announcement }}</p>
        <div class="across" role="alert">
          @if (state().fault; as fault) {
            <section sealwayFault [fault]="fault" (dismiss)="shop.dismissFault()"></section>
          }
        </div>
        <div class="column">
          <section sealwaySession></section>
          @for (clearing of [state().clearings]; track clearing) {
            <section sealwayPurchase></section>
          }
        </div>
        <div class="column">
          <section sealwayMetrics [rows]="state().metrics"></section>
          @for (clearing of [state().clearings]; track clearing) {
            <section sealwayBenchmark></section>
          }
        </div>
        <section sealwayExchange></section>
        <section sealwayConsole [entries]="state().journal"></section>
      </main>
    </div>
  `,
})
export class App {
  protected readonly shop = inject(SHOP);
  protected readonly state = injectState();
}
