import { Component, computed, input } from "@angular/core";
import { CHART_WIDTH, chartOf, type EndpointMetrics, millis, SHARE_LABELS, SHARES } from "sealway-shop";

/** How long the last call of each kind took, and where its time went. */
@Component({
  selector: "section[sealwayMetrics]",
  host: { class: "card", "aria-labelledby": "metrics-title" },
  template: `
    <h2 id="metrics-title">Metrics</h2>
    @if (rows().length === 0) {
      <p class="quiet">Nothing measured yet.</p>
    } @else {
      <ul class="legend" aria-hidden="true">
        @for (share of shares; track share) {
          <li class="share-{{ share }}"><span>{{ labels[share] }}</span></li>
        }
      </ul>
      <div class="chart" role="img" [attr.aria-label]="chart().description">
        @for (bar of chart().bars; track bar.endpoint) {
          <div>
            <p><span>{{ bar.label }}</span><span>{{ bar.value }}</span></p>
            <svg [attr.viewBox]="'0 0 ' + width + ' 1'" preserveAspectRatio="none" aria-hidden="true">
              @for (segment of bar.segments; track segment.share) {
                <svg:rect class="share-{{ segment.share }}" [attr.x]="segment.x" y="0" [attr.width]="segment.width" height="1" />
              }
            </svg>
          </div>
        }
      </div>
      <table>
        <caption class="unseen">The last call of each kind, in milliseconds</caption>
        <thead>
          <tr>
            <th scope="col">In ms</th>
            <th scope="col" class="number">Round trip</th>
            <th scope="col" class="number">HTTP</th>
            <th scope="col" class="number">Crypto</th>
            <th scope="col" class="number">Server</th>
          </tr>
        </thead>
        <tbody>
          @for (row of rows(); track row.endpoint) {
            <tr>
              <th scope="row">
                {{ row.label }}
                @if (row.calls > 1) {
                  <small>{{ row.calls }} calls, median {{ millis(row.medianMs) }}</small>
                }
              </th>
              <td class="number">{{ millis(row.last.totalMs) }}</td>
              <td class="number">{{ millis(row.last.httpMs) }}</td>
              <td class="number">{{ millis(row.last.cryptoMs) }}</td>
              <td class="number">{{ row.last.serverMs === null ? "–" : millis(row.last.serverMs) }}</td>
            </tr>
          }
        </tbody>
      </table>
      <details>
        <summary>Every step of these calls</summary>
        <table>
          <caption class="unseen">Steps of the last call of each kind</caption>
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">Where</th>
              <th scope="col" class="number">ms</th>
            </tr>
          </thead>
          @for (row of rows(); track row.endpoint) {
            <tbody>
              <tr>
                <th scope="rowgroup" colspan="3">{{ row.label }}: <code>{{ row.last.method }} {{ row.last.path }}</code></th>
              </tr>
              @for (step of row.last.crypto; track $index) {
                <tr><td>{{ step.name }}</td><td>Browser</td><td class="number">{{ millis(step.ms) }}</td></tr>
              }
              @for (step of row.last.serverTiming; track $index) {
                <tr><td>{{ step.name }}</td><td>Server</td><td class="number">{{ millis(step.ms) }}</td></tr>
              }
            </tbody>
          }
        </table>
      </details>
    }
  `,
})
export class MetricsCard {
  readonly rows = input.required<readonly EndpointMetrics[]>();
  protected readonly chart = computed(() => chartOf(this.rows()));
  protected readonly shares = SHARES;
  protected readonly labels = SHARE_LABELS;
  protected readonly width = CHART_WIDTH;
  protected readonly millis = millis;
}
