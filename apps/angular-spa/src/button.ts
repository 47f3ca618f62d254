import { booleanAttribute, Directive, input, output } from "@angular/core";

/** A button that keeps the focus when it is off: a `disabled` one would drop it while somebody stands on it. */
@Directive({
  selector: "button[isOff]",
  host: { "[attr.aria-disabled]": "isOff()", "(click)": "click($event)" },
})
export class Button {
  readonly isOff = input(false, { transform: booleanAttribute });
  /** Pressed while on. */
  readonly press = output();

  protected click(event: Event): void {
    if (this.isOff()) event.preventDefault();
    else this.press.emit();
  }
}
