import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Parts of @noble's packages that several chunks share, by the names that the bundler gives them.
const SHARED: Readonly<Record<string, string>> = { utils: "noble", _crystals: "lattices" };

// Paths are relative, so that the page works below any path. No source maps: dist/ is committed, and built into the binary,
// which names each file: so names have no hashes.
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
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: ({ name }) => `assets/${SHARED[name] ?? name}.js`,
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
