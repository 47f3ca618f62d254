import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Paths are relative, so that the page works below any path. No source maps: dist/ is committed.
export default defineConfig({
  base: "./",
  plugins: [react()],
  server: { port: 4201, strictPort: true },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    sourcemap: false,
    license: { fileName: "licenses.md" },
  },
});
