// A test runner of Stryker in one process: Stryker's own for Vitest needs a second of processor time for each mutant, and this one
// milliseconds. It bundles the tests, loads the bundle anew for each mutant, and runs the tests that reach the mutant until one fails.
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { commonTokens, declareFactoryPlugin, PluginKind, tokens } from "@stryker-mutator/api/plugin";
import { DryRunStatus, determineHitLimitReached, TestStatus, toMutantRunResult } from "@stryker-mutator/api/test-runner";
import { rolldown } from "rolldown";
import { take } from "./vitest.js";

const TEST_MS_MAX = 60_000;
const DURATIONS = ".stryker-durations.json";

function runner(options) {
  const state = (globalThis.__stryker__ ??= {});
  const entry = resolve(`.stryker-tests-${process.pid}.ts`);
  const bundle = resolve(`.stryker-tests-${process.pid}.mjs`);
  let loads = 0;
  let durations;

  async function load() {
    loads += 1;
    state.currentTestId = undefined;
    await import(`${pathToFileURL(bundle).href}?${loads}`);
    return take();
  }

  async function run(tests, stopAtFailure) {
    const results = [];
    for (const { name, body } of tests) {
      const begin = performance.now();
      state.currentTestId = name;
      let failureMessage;
      try {
        await within(TEST_MS_MAX, body());
      } catch (error) {
        failureMessage = String(error);
      }
      const result = { id: name, name, timeSpentMs: performance.now() - begin };
      results.push(
        failureMessage === undefined
          ? { ...result, status: TestStatus.Success }
          : { ...result, status: TestStatus.Failed, failureMessage },
      );
      if (failureMessage !== undefined && stopAtFailure) break;
    }
    state.currentTestId = undefined;
    return results;
  }

  return {
    capabilities: () => ({ reloadEnvironment: true }),

    async init() {
      writeFileSync(entry, options.sealway.tests.map((file) => `import "./${file}";\n`).join(""));
      const vitest = pathToFileURL(resolve("vitest.js")).href;
      const plugins = [
        { name: "vitest", resolveId: (id) => (id === "vitest" ? { id: vitest, external: true } : null) },
        // Tests find the vectors from their own place.
        { name: "place", transform: (code, id) => code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href)) },
      ];
      const built = await rolldown({ input: entry, external: [/^node:/, /^@noble\//], plugins, platform: "node", treeshake: false });
      await built.write({ file: bundle, format: "esm", codeSplitting: false });
    },

    async dryRun() {
      const tests = await run(await load(), false);
      writeFileSync(DURATIONS, JSON.stringify(Object.fromEntries(tests.map((test) => [test.id, test.timeSpentMs]))));
      return { status: DryRunStatus.Complete, tests, mutantCoverage: state.mutantCoverage };
    },

    async mutantRun({ activeMutant, mutantActivation, testFilter, hitLimit }) {
      state.activeMutant = mutantActivation === "static" ? activeMutant.id : undefined;
      state.hitCount = hitLimit === undefined ? undefined : 0;
      state.hitLimit = hitLimit;
      let tests;
      try {
        tests = await load();
      } catch (error) {
        take();
        // The library does not load.
        const failed = { id: "load", name: "load", timeSpentMs: 0, status: TestStatus.Failed, failureMessage: String(error) };
        return toMutantRunResult({ status: DryRunStatus.Complete, tests: [failed] });
      }
      state.activeMutant = activeMutant.id;
      const wanted = testFilter && new Set(testFilter);
      durations ??= JSON.parse(readFileSync(DURATIONS, "utf8"));
      const chosen = tests.filter(({ name }) => wanted?.has(name) ?? true);
      chosen.sort((one, other) => durations[one.name] - durations[other.name]);
      const results = await run(chosen, true);
      state.activeMutant = undefined;
      return toMutantRunResult(
        determineHitLimitReached(state.hitCount, hitLimit) ?? { status: DryRunStatus.Complete, tests: results },
      );
    },
  };
}

async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not over after ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
runner.inject = tokens(commonTokens.options);

export const strykerPlugins = [declareFactoryPlugin(PluginKind.TestRunner, "sealway", runner)];
