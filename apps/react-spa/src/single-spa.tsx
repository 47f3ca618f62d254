import { createRoot, type Root } from "react-dom/client";
import { type Config, Shop } from "sealway-shop";
import "sealway-shop/shop.css";
import { App } from "./app";

/** What single-spa hands over; `config` takes the place of a config.json beside the page. */
interface Props {
  readonly name: string;
  readonly domElement?: HTMLElement;
  readonly config?: Config;
}

interface Mounted {
  readonly root: Root;
  readonly shop: Shop;
  readonly styles: HTMLLinkElement;
}

const mounted = new Map<string, Mounted>();

/** Nothing is to be made ready before the first mount. */
export async function bootstrap(): Promise<void> {}

/** Draws the page into `domElement`, or into single-spa's own element for this application. */
export async function mount(props: Props): Promise<void> {
  if (mounted.has(props.name)) return;
  const place = props.domElement ?? placeOf(props.name);
  const styles = await styleSheet();
  const { config } = props;
  const shop = new Shop(config === undefined ? {} : { loadConfig: async () => config });
  const root = createRoot(place);
  root.render(<App shop={shop} />);
  mounted.set(props.name, { root, shop, styles });
  void shop.open();
}

/** Wipes the session and takes the page away. */
export async function unmount(props: Props): Promise<void> {
  const { root, shop, styles } = mounted.get(props.name) ?? {};
  mounted.delete(props.name);
  root?.unmount();
  shop?.close();
  styles?.remove();
}

function placeOf(name: string): HTMLElement {
  const id = `single-spa-application:${name}`;
  const found = document.getElementById(id);
  if (found !== null) return found;
  const made = document.createElement("div");
  made.id = id;
  return document.body.appendChild(made);
}

/** The style sheet lies beside this module, wherever that was loaded from. */
function styleSheet(): Promise<HTMLLinkElement> {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(/* @vite-ignore */ "sealway.css", import.meta.url).href;
  return new Promise((resolve, reject) => {
    link.onload = () => resolve(link);
    link.onerror = () => reject(new Error("sealway.css does not load"));
    document.head.append(link);
  });
}
