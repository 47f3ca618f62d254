import { type EndpointMetrics, SHARE_LABELS, SHARES, type ShareName } from "./metrics.js";
import { millis } from "./text.js";

/** A part of a bar, in the chart's own units. */
export interface Segment {
  readonly share: ShareName;
  readonly x: number;
  readonly width: number;
}

/** A bar for the last call of one kind. */
export interface Bar {
  readonly endpoint: string;
  readonly label: string;
  readonly value: string;
  readonly segments: readonly Segment[];
}

/** What is drawn: an SVG for each bar. */
export interface Chart {
  readonly bars: readonly Bar[];
  /** What the picture says, for who cannot see it. */
  readonly description: string;
}

/** The units of a bar's width; an SVG stretches them to what room there is. */
export const CHART_WIDTH = 1000;
/** Thinner parts would be less than a pixel. */
const VISIBLE = 1.5;
const GAP = 2.5;

/**
 * Lays out one stacked bar a kind of call. Each has the whole width: an init takes so much longer than a call that on one
 * scale the parts of a call could not be seen.
 */
export function chartOf(rows: readonly EndpointMetrics[]): Chart {
  const bars = rows.map((row): Bar => {
    let x = 0;
    const segments: Segment[] = [];
    for (const share of SHARES) {
      const width = (row.last.shares[share] / Math.max(row.last.totalMs, Number.MIN_VALUE)) * CHART_WIDTH;
      if (width >= VISIBLE) segments.push({ share, x: round(x), width: round(Math.max(width - GAP, VISIBLE)) });
      x += width;
    }
    return { endpoint: row.endpoint, label: row.label, value: `${millis(row.last.totalMs)} ms`, segments };
  });
  const says = (row: EndpointMetrics) =>
    `${row.label}: ${millis(row.last.totalMs)} ms, of it ` +
    SHARES.map((share) => `${SHARE_LABELS[share].toLowerCase()} ${millis(row.last.shares[share])}`).join(", ");
  return { bars, description: rows.map(says).join(". ") };
}

const round = (value: number) => Math.round(value * 100) / 100;
