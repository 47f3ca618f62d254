import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // Real processes on a busy machine: the report shows a test that passes the second time as retried.
    retry: 1,
  },
});
