import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// One module with the three functions of single-spa's contract, and its style sheet beside it.
export default defineConfig({
  plugins: [react()],
  publicDir: false,
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  build: {
    outDir: "dist-single-spa",
    target: "es2022",
    lib: { entry: "src/single-spa.tsx", formats: ["es"], fileName: "sealway-react", cssFileName: "sealway" },
  },
});
