import { bootstrapApplication } from "@angular/platform-browser";
import { Shop } from "sealway-shop";
import { App } from "./app";
import { SHOP } from "./shop-state";

const shop = new Shop();
bootstrapApplication(App, { providers: [{ provide: SHOP, useValue: shop }] }).then(
  () => shop.open(),
  // Without the page there is nowhere else to say it.
  (error: unknown) => console.error(error),
);
