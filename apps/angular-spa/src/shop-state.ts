import { DestroyRef, InjectionToken, inject, type Signal, signal } from "@angular/core";
import type { Shop, ShopState } from "sealway-shop";

/** The one shop of this page. */
export const SHOP = new InjectionToken<Shop>("Shop");

/** What is on the page, as a signal. Called in an injection context. */
export function injectState(): Signal<ShopState> {
  const shop = inject(SHOP);
  const state = signal(shop.snapshot());
  inject(DestroyRef).onDestroy(shop.subscribe(() => state.set(shop.snapshot())));
  return state.asReadonly();
}
