import { Component, input } from "@angular/core";

/** Pairs of name and value. */
@Component({
  selector: "dl[sealwayFacts]",
  host: { class: "facts" },
  template: `
    @for (fact of facts(); track fact[0]) {
      <dt>{{ fact[0] }}</dt>
      <dd>{{ fact[1] }}</dd>
    }
  `,
})
export class Facts {
  readonly facts = input.required<readonly (readonly [string, string])[]>();
}
