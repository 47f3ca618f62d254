import { Component, computed, inject, signal } from "@angular/core";
import { CALLS_MAX, CONCURRENCY_MAX, millis } from "sealway-shop";
import { Button } from "./button";
import { injectState, SHOP } from "./shop-state";

const LESSER = ["min", "mean", "p90", "p95", "max"] as const;

/** Makes N purchases and tells how fast they were. */
@Component({
  selector: "section[sealwayBenchmark]",
  imports: [Button],
  host: { class: "card", "aria-labelledby": "benchmark-title" },
  template: `
    <h2 id="benchmark-title">Benchmark</h2>
    <form novalidate (submit)="submit($event)">
      <div class="fields">
        <div class="field">
          <label for="field-calls">Calls</label>
          <input #callsBox id="field-calls" type="number" min="1" [max]="callsMax" [value]="calls()" autocomplete="off" (input)="calls.set(callsBox.value)" />
        </div>
        <div class="field">
          <label for="field-concurrency">At a time</label>
          <input #callersBox id="field-concurrency" type="number" min="1" [max]="callersMax" [value]="callers()" autocomplete="off" (input)="callers.set(callersBox.value)" />
        </div>
      </div>
      <div class="buttons">
        <button type="submit" [isOff]="isOff()">{{ isRunning() ? "Cancel benchmark" : "Run benchmark" }}</button>
      </div>
    </form>
    @if (state().benchmark; as benchmark) {
      <div class="answer">
        <progress aria-label="Calls made" [attr.max]="benchmark.wanted" [attr.value]="benchmark.progress.done + benchmark.progress.failed"></progress>
        <p class="quiet">
          {{ benchmark.progress.done }} of {{ benchmark.wanted }} calls, {{ benchmark.progress.failed }} failed,
          {{ benchmark.progress.seconds.toFixed(1) }} s{{ benchmark.result?.cancelled ? ", cancelled" : "" }}
        </p>
        @if (benchmark.result; as result) {
          <dl class="tiles wide">
            <div>
              <dt>Throughput</dt>
              <dd>{{ result.throughputPerS.toFixed(1) }} <small>/ s</small></dd>
            </div>
            @if (result.latencyMs; as latency) {
              <div>
                <dt>Median</dt>
                <dd>{{ millis(latency.p50) }} <small>ms</small></dd>
              </div>
              <div>
                <dt>p99</dt>
                <dd>{{ millis(latency.p99) }} <small>ms</small></dd>
              </div>
            }
          </dl>
          @if (result.latencyMs; as latency) {
            <dl class="tiles">
              @for (name of lesser; track name) {
                <div>
                  <dt>{{ name }}</dt>
                  <dd>{{ millis(latency[name]) }} <small>ms</small></dd>
                </div>
              }
            </dl>
          }
        }
      </div>
    }
  `,
})
export class BenchmarkCard {
  protected readonly callsMax = CALLS_MAX;
  protected readonly callersMax = CONCURRENCY_MAX;
  protected readonly lesser = LESSER;
  protected readonly millis = millis;
  protected readonly state = injectState();
  protected readonly calls = signal("100");
  protected readonly callers = signal("1");
  protected readonly isRunning = computed(() => this.state().task === "benchmark");
  protected readonly isOff = computed(() => !this.isRunning() && (this.state().task !== null || this.state().config === null));
  readonly #shop = inject(SHOP);

  protected submit(event: Event): void {
    event.preventDefault();
    if (this.isRunning()) this.#shop.cancelBenchmark();
    else if (!this.isOff()) void this.#shop.benchmark(Number(this.calls()), Number(this.callers()));
  }
}
