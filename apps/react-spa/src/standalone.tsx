import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Shop } from "sealway-shop";
import "sealway-shop/page.css";
import "sealway-shop/shop.css";
import { App } from "./app";

const shop = new Shop();
const place = document.getElementById("shop");
if (place === null) throw new Error("index.html has no element #shop");
createRoot(place).render(
  <StrictMode>
    <App shop={shop} />
  </StrictMode>,
);
void shop.open();
