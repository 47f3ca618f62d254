import { useSyncExternalStore } from "react";
import type { Shop } from "sealway-shop";
import { BenchmarkCard } from "./benchmark-card";
import { ConsoleCard } from "./console-card";
import { ExchangeCard } from "./exchange-card";
import { FaultCard } from "./fault-card";
import { MetricsCard } from "./metrics-card";
import { PurchaseCard } from "./purchase-card";
import { SessionCard } from "./session-card";

/** The whole page. */
export function App({ shop }: { shop: Shop }) {
  const state = useSyncExternalStore(shop.subscribe, shop.snapshot);
  return (
    <div className="shop">
      <header className="bar">
        <div>
          <h1>
            Sealway<small>demo shop</small>
          </h1>
          <p className="quiet">
            Service <code>{state.config?.serverUrl ?? "…"}</code>
          </p>
        </div>
      </header>
      <main className="board">
        <p className="unseen" role="status">
          {state.announcement}
        </p>
        <div className="across" role="alert">
          {state.fault && <FaultCard fault={state.fault} onDismiss={() => shop.dismissFault()} />}
        </div>
        <div className="column">
          <SessionCard shop={shop} state={state} />
          <PurchaseCard key={`purchase-${state.clearings}`} shop={shop} state={state} />
        </div>
        <div className="column">
          <MetricsCard rows={state.metrics} />
          <BenchmarkCard key={`benchmark-${state.clearings}`} shop={shop} state={state} />
        </div>
        <ExchangeCard shop={shop} state={state} />
        <ConsoleCard entries={state.journal} />
      </main>
    </div>
  );
}
