import { type FormEvent, useState } from "react";
import { type BenchmarkResult, CALLS_MAX, CONCURRENCY_MAX, millis, type Shop, type ShopState } from "sealway-shop";
import { Button } from "./button";

/** Makes N purchases and tells how fast they were. */
export function BenchmarkCard({ shop, state }: { shop: Shop; state: ShopState }) {
  const [calls, setCalls] = useState("100");
  const [concurrency, setConcurrency] = useState("1");
  const isRunning = state.task === "benchmark";
  const isOff = !isRunning && (state.task !== null || state.config === null);
  const { benchmark } = state;

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isRunning) shop.cancelBenchmark();
    else if (!isOff) void shop.benchmark(Number(calls), Number(concurrency));
  };
  return (
    <section className="card" aria-labelledby="benchmark-title">
      <h2 id="benchmark-title">Benchmark</h2>
      <form noValidate onSubmit={submit}>
        <div className="fields">
          <Count id="calls" label="Calls" max={CALLS_MAX} value={calls} onChange={setCalls} />
          <Count id="concurrency" label="At a time" max={CONCURRENCY_MAX} value={concurrency} onChange={setConcurrency} />
        </div>
        <div className="buttons">
          <Button type="submit" isOff={isOff}>
            {isRunning ? "Cancel benchmark" : "Run benchmark"}
          </Button>
        </div>
      </form>
      {benchmark && (
        <div className="answer">
          <progress aria-label="Calls made" max={benchmark.wanted} value={benchmark.progress.done + benchmark.progress.failed} />
          <p className="quiet">
            {benchmark.progress.done} of {benchmark.wanted} calls, {benchmark.progress.failed} failed,{" "}
            {benchmark.progress.seconds.toFixed(1)} s{benchmark.result?.cancelled && ", cancelled"}
          </p>
          {benchmark.result && <Result result={benchmark.result} />}
        </div>
      )}
    </section>
  );
}

interface CountProps {
  readonly id: string;
  readonly label: string;
  readonly max: number;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Count({ id, label, max, value, onChange }: CountProps) {
  return (
    <div className="field">
      <label htmlFor={`field-${id}`}>{label}</label>
      <input
        id={`field-${id}`}
        type="number"
        min={1}
        max={max}
        value={value}
        autoComplete="off"
        onChange={(event) => onChange(event.target.value)}
      />
    </div>
  );
}

function Result({ result }: { result: BenchmarkResult }) {
  return (
    <>
      <dl className="tiles wide">
        <div>
          <dt>Throughput</dt>
          <dd>
            {result.throughputPerS.toFixed(1)} <small>/ s</small>
          </dd>
        </div>
        {result.latencyMs && (
          <>
            <div>
              <dt>Median</dt>
              <dd>
                {millis(result.latencyMs.p50)} <small>ms</small>
              </dd>
            </div>
            <div>
              <dt>p99</dt>
              <dd>
                {millis(result.latencyMs.p99)} <small>ms</small>
              </dd>
            </div>
          </>
        )}
      </dl>
      {result.latencyMs && (
        <dl className="tiles">
          {Object.entries(result.latencyMs)
            .filter(([name]) => name !== "p50" && name !== "p99")
            .map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  {millis(value)} <small>ms</small>
                </dd>
              </div>
            ))}
        </dl>
      )}
    </>
  );
}
