import { useEffect, useRef } from "react";
import { clockTime, type JournalEntry } from "sealway-shop";

/** What happened, the newest line last. Outcomes are announced elsewhere, so this log is silent. */
export function ConsoleCard({ entries }: { entries: readonly JournalEntry[] }) {
  const box = useRef<HTMLDivElement>(null);
  const newest = entries.at(-1)?.id;
  useEffect(() => {
    if (newest !== undefined) box.current?.scrollTo(0, box.current.scrollHeight);
  }, [newest]);
  return (
    <section className="card across" aria-labelledby="console-title">
      <div className="title">
        <h2 id="console-title">Console</h2>
        <p className="quiet">Names, sizes and times; never a key</p>
      </div>
      <div ref={box} className="journal" role="log" aria-live="off" aria-label="What happened" tabIndex={0}>
        <ol>
          {entries.map(({ id, atMs, tone, text }) => (
            <li key={id} className={tone}>
              <time dateTime={new Date(atMs).toISOString()}>{clockTime(atMs)}</time>
              <span>{text}</span>
            </li>
          ))}
        </ol>
      </div>
    </section>
  );
}
