/** Ends the program if something does not hold. */
export function check(holds, ...why) {
  if (!holds) throw new Error(why.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" "));
}
