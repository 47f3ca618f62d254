import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

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
        // What the chunk of this name holds is of @noble's packages.
        chunkFileNames: ({ name }) => `assets/${name === "utils" ? "noble" : name}.js`,
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
