import { CHART_WIDTH, chartOf, type EndpointMetrics, millis, SHARE_LABELS, SHARES, type Step } from "sealway-shop";

/** How long the last call of each kind took, and where its time went. */
export function MetricsCard({ rows }: { rows: readonly EndpointMetrics[] }) {
  return (
    <section className="card" aria-labelledby="metrics-title">
      <h2 id="metrics-title">Metrics</h2>
      {rows.length === 0 ? (
        <p className="quiet">Nothing measured yet.</p>
      ) : (
        <>
          <Bars rows={rows} />
          <Figures rows={rows} />
          <Steps rows={rows} />
        </>
      )}
    </section>
  );
}

function Bars({ rows }: { rows: readonly EndpointMetrics[] }) {
  const chart = chartOf(rows);
  return (
    <>
      <ul className="legend" aria-hidden="true">
        {SHARES.map((share) => (
          <li key={share} className={`share-${share}`}>
            <span>{SHARE_LABELS[share]}</span>
          </li>
        ))}
      </ul>
      <div className="chart" role="img" aria-label={chart.description}>
        {chart.bars.map((bar) => (
          <div key={bar.endpoint}>
            <p>
              <span>{bar.label}</span>
              <span>{bar.value}</span>
            </p>
            <svg viewBox={`0 0 ${CHART_WIDTH} 1`} preserveAspectRatio="none" aria-hidden="true">
              {bar.segments.map(({ share, x, width }) => (
                <rect key={share} className={`share-${share}`} x={x} y="0" width={width} height="1" />
              ))}
            </svg>
          </div>
        ))}
      </div>
    </>
  );
}

function Figures({ rows }: { rows: readonly EndpointMetrics[] }) {
  return (
    <table>
      <caption className="unseen">The last call of each kind, in milliseconds</caption>
      <thead>
        <tr>
          <th scope="col">In ms</th>
          <th scope="col" className="number">
            Round trip
          </th>
          <th scope="col" className="number">
            HTTP
          </th>
          <th scope="col" className="number">
            Crypto
          </th>
          <th scope="col" className="number">
            Server
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ endpoint, label, calls, medianMs, last }) => (
          <tr key={endpoint}>
            <th scope="row">
              {label}
              {calls > 1 && (
                <small>
                  {calls} calls, median {millis(medianMs)}
                </small>
              )}
            </th>
            <td className="number">{millis(last.totalMs)}</td>
            <td className="number">{millis(last.httpMs)}</td>
            <td className="number">{millis(last.cryptoMs)}</td>
            <td className="number">{last.serverMs === null ? "–" : millis(last.serverMs)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Steps({ rows }: { rows: readonly EndpointMetrics[] }) {
  return (
    <details>
      <summary>Every step of these calls</summary>
      <table>
        <caption className="unseen">Steps of the last call of each kind</caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">Where</th>
            <th scope="col" className="number">
              ms
            </th>
          </tr>
        </thead>
        {rows.map(({ endpoint, label, last }) => (
          <tbody key={endpoint}>
            <tr>
              <th scope="rowgroup" colSpan={3}>
                {label}: <code>{`${last.method} ${last.path}`}</code>
              </th>
            </tr>
            <StepRows steps={last.crypto} where="Browser" />
            <StepRows steps={last.serverTiming} where="Server" />
          </tbody>
        ))}
      </table>
    </details>
  );
}

function StepRows({ steps, where }: { steps: readonly Step[]; where: string }) {
  return steps.map(({ name, ms }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a step may come twice in one call
    <tr key={`${index}-${name}`}>
      <td>{name}</td>
      <td>{where}</td>
      <td className="number">{millis(ms)}</td>
    </tr>
  ));
}
