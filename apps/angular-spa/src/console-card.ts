import { afterRenderEffect, Component, type ElementRef, input, viewChild } from "@angular/core";
import { clockTime, type JournalEntry } from "sealway-shop";

/** What happened, the newest line last. Outcomes are announced elsewhere, so this log is silent. */
@Component({
  selector: "section[sealwayConsole]",
  host: { class: "card across", "aria-labelledby": "console-title" },
  template: `
    <div class="title">
      <h2 id="console-title">Console</h2>
      <p class="quiet">Names, sizes and times; never a key</p>
    </div>
    <div #box class="journal" role="log" aria-live="off" aria-label="What happened" tabindex="0">
      <ol>
        @for (entry of entries(); track entry.id) {
          <li class="{{ entry.tone }}">
            <time [attr.datetime]="iso(entry.atMs)">{{ clockTime(entry.atMs) }}</time>
            <span>{{ entry.text }}</span>
          </li>
        }
      </ol>
    </div>
  `,
})
export class ConsoleCard {
  readonly entries = input.required<readonly JournalEntry[]>();
  protected readonly clockTime = clockTime;
  private readonly box = viewChild.required<ElementRef<HTMLElement>>("box");

  constructor() {
    afterRenderEffect(() => {
      if (this.entries().length === 0) return;
      const { nativeElement } = this.box();
      nativeElement.scrollTo(0, nativeElement.scrollHeight);
    });
  }

  protected iso(atMs: number): string {
    return new Date(atMs).toISOString();
  }
}
