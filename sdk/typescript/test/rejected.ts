/** What a call is rejected with, for the tables of tests. */

/** Returns the code, and the field, of the error that `run` throws. */
export async function rejected(run: () => unknown): Promise<string> {
  try {
    await run();
  } catch (error) {
    const { code, field } = error as { code: string; field?: string };
    return field === undefined ? code : `${code} ${field}`;
  }
  return "accepted";
}
